"""Whole files or none: write under a temporary name, then rename."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from depthrank.errors import DepthrankError


@contextmanager
def atomic(path: "str | os.PathLike[str]") -> Iterator[IO[bytes]]:
    """Open a binary file that appears under its name only when it is complete.

    Parameters
    ----------
    path : path_like
        The file to write; an older one is replaced at the end, in one step.

    Yields
    ------
    binary file
        Lies in the same folder under a temporary name; removed if the block ends in an exception.

    Raises
    ------
    DepthrankError
        If the folder does not exist or cannot be written to.
    """
    target = Path(os.path.realpath(path))  # a link keeps pointing where it points
    temporary = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        if target.is_dir():
            raise IsADirectoryError(21, "it is a folder")
        handle = temporary.open("wb")
    except OSError as error:
        raise DepthrankError(f"cannot write {str(path)!r}: {error.strerror}.") from None
    try:
        with handle:
            yield handle
            handle.flush()
            os.fsync(handle.fileno())  # else a crash may leave the new name on an empty file
        temporary.replace(target)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
