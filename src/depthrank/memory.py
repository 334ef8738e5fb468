"""What a table may cost in memory, asked before it is taken.

A dense 200,000 x 200,000 result kills the process long after it was asked for. `require` says
beforehand how much is needed and how much is there.
"""

import os
from pathlib import Path

from depthrank.errors import DepthrankError

GIB = 2**30
_CGROUP_ROOT = Path("/sys/fs/cgroup")


def available() -> int | None:
    """Memory this process may still take, in bytes.

    Returns
    -------
    int or None
        The smaller of what the machine and the control group (a container's limit) leave; None
        where neither can be read.
    """
    known = [room for room in (_machine_room(), _group_room()) if room is not None]
    return min(known, default=None)


def require(n_bytes: int, what: str, advice: str = "") -> None:
    """Check that so much memory can be taken.

    Parameters
    ----------
    n_bytes : int
        What would be needed, in bytes.
    what : str
        What needs it, as the subject of the message: "a dense 5 x 4 result".
    advice : str, optional
        What to do instead, a sentence.

    Raises
    ------
    DepthrankError
        If less than `n_bytes` is available. Where the available memory cannot be read, nothing
        is refused.
    """
    room = available()
    if room is not None and n_bytes > room:
        message = f"{what} needs {gib(n_bytes)}; {gib(room)} are available."
        raise DepthrankError(f"{message} {advice}".rstrip())


def gib(n_bytes: float) -> str:
    """Write a size in GiB with three significant digits.

    Parameters
    ----------
    n_bytes : float
        Size in bytes.

    Returns
    -------
    str
        For example "74.5 GiB".
    """
    size = n_bytes / GIB
    return f"{size:,.0f} GiB" if size >= 99.95 else f"{size:.3g} GiB"


def _machine_room() -> int | None:
    try:
        # MemAvailable counts the page cache that can be dropped; sysconf's free pages do not.
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not on this system
        return None


def _group_room(root: Path = _CGROUP_ROOT, own: str | None = None) -> int | None:
    """Room under the tightest limit on the path from this process's control group to the root."""
    try:
        lines = (Path("/proc/self/cgroup").read_text() if own is None else own).splitlines()
    except OSError:
        return None
    folder = root / next((line[4:] for line in lines if line.startswith("0::/")), "")
    inside = [group for group in (folder, *folder.parents) if group.is_relative_to(root)]
    rooms = []
    for group, limit_name, used_name in (
        *((group, "memory.max", "memory.current") for group in inside),
        (root / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),  # version 1
    ):
        limit, used = _number(group / limit_name), _number(group / used_name)
        if limit is not None and used is not None:
            rooms.append(max(limit - used + _droppable(group), 0))
    return min(rooms, default=None)


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):  # absent, or "max"
        return None


def _droppable(group: Path) -> int:
    """File cache that the group can give back, in bytes."""
    try:
        lines = (group / "memory.stat").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("inactive_file ")), 0)
