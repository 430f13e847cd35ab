"""Reading and replacing files whose names somebody else chose."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tempfile
from pathlib import Path

_OPENING = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def read_file(path: Path, most: int = -1) -> bytes:
    """Return the bytes of a regular file, at most so many (-1: all).

    Raises OSError where it cannot be read, and for a pipe or a device: to read one may never end.
    """
    handle = os.open(path, _OPENING)  # without O_NONBLOCK, a pipe keeps who opens it until somebody writes
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        return file.read(most)


def write_atomically(path: Path, data: bytes, *, within: Path) -> None:
    """Replace a file's content as a whole, or not at all; a link stays a link, the permissions stay.

    Raises OSError where that is not to be, and where a link leads out of the project that the file lies ``within``:
    whoever wrote the project would choose what of the user's is changed.
    """
    target = path.resolve()
    if path.absolute().is_relative_to(within.absolute()) and not target.is_relative_to(within.resolve()):
        raise PermissionError(errno.EPERM, f"it is a link to {target}, outside of the project", str(path))
    if not os.access(target, os.W_OK):  # to replace a file, the right to write its folder would do
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(target))
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        temporary = Path(name)
        temporary.chmod(target.stat().st_mode)
        temporary.replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise
