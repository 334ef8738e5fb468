"""One writer at a time: a lock file beside the store that names its owner.

The kernel holds the lock for as long as the process lives, so that a killed owner leaves a file
but no lock, and the next writer on that machine takes over. A file that another machine wrote
cannot be checked from here; the message says how to clear it.
"""

import getpass
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from depthrank.errors import DepthrankError

__all__ = ["lock_path", "locked", "owner"]


def lock_path(store: Path) -> Path:
    """Return the lock file of a store: beside it, as the folder itself is zarr's."""
    return store.with_name(store.name + ".lock")


def owner(store: Path) -> dict[str, Any] | None:
    """Return who holds, or held, the lock of a store; None if nobody."""
    try:
        found = json.loads(lock_path(store).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


@contextmanager
def locked(store: Path) -> Iterator[None]:
    """Hold the lock of a store.

    Raises
    ------
    DepthrankError
        If another process holds it, or one on another machine did and left its file.
    """
    path = lock_path(store)
    handle = _take(path, store)
    try:
        yield
    finally:
        with suppress(OSError):
            path.unlink()
        os.close(handle)


def _take(path: Path, store: Path) -> int:
    while True:
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise DepthrankError(
                f"cannot lock {str(store)!r}: {str(path)!r}: {error.strerror}."
            ) from None
        if not _exclusive(handle):
            os.close(handle)
            raise DepthrankError(
                f"{str(store)!r} is being written by {_named(owner(store))}. Wait for it or stop "
                "it; `depthrank sweep show` reads the store meanwhile."
            )
        # The owner before may have removed the file between our opening and our locking it.
        with suppress(OSError):
            if os.path.samestat(os.fstat(handle), os.stat(path)):
                break
        os.close(handle)
    before = owner(store)
    if before is not None and before.get("host") != socket.gethostname():
        os.close(handle)
        raise DepthrankError(
            f"{str(store)!r} is locked by {_named(before)}, on another machine. If that process "
            f"has ended, the lock is stale: remove it with `rm {path}`."
        )
    ours = {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "user": _user(),
        "since": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    try:
        os.ftruncate(handle, 0)
        os.write(handle, json.dumps(ours).encode())
    except OSError as error:
        os.close(handle)
        raise DepthrankError(f"cannot write {str(path)!r}: {error.strerror}.") from None
    return handle


def _exclusive(handle: int) -> bool:
    """Try to take the kernel's lock on an open file."""
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        except OSError:
            return False
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _named(who: dict[str, Any] | None) -> str:
    if who is None:
        return "another process"
    pid, user, host, since = (who.get(key) for key in ("pid", "user", "host", "since"))
    return f"process {pid} of {user} on {host} since {since}"


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user without a name, as in some containers
        return "unknown"
