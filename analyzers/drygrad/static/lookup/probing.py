"""What answers rest on: the files that were read, and those that were looked for in vain."""

from __future__ import annotations

import stat
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

Stamp = tuple[int, int]
"""Time of the last change in nanoseconds, and size; of a folder neither matters."""

_FOLDER: Stamp = (0, -1)
_noted: ContextVar[dict[Path, Stamp | None] | None] = ContextVar("noted", default=None)


@contextmanager
def noting() -> Generator[dict[Path, Stamp | None]]:
    """Collect the paths that are probed in the block, with what they were when they first were."""
    stamps: dict[Path, Stamp | None] = {}
    token = _noted.set(stamps)
    try:
        yield stamps
    finally:
        _noted.reset(token)


def stamp(path: Path) -> Stamp | None:
    """Return how a file is known again; None where there is none."""
    found = _stamp(path)
    noted = _noted.get()
    if noted is not None:
        noted.setdefault(path, found)
    return found


def _stamp(path: Path) -> Stamp | None:
    try:
        state = path.stat()
    except (OSError, ValueError):
        return None
    return _FOLDER if stat.S_ISDIR(state.st_mode) else (state.st_mtime_ns, state.st_size)


def is_noting() -> bool:
    """Say whether somebody collects what is probed."""
    return _noted.get() is not None


def unnoted_stamp(path: Path) -> Stamp | None:
    """Return how a file is known again, as something that no answer rests on yet."""
    return _stamp(path)


def is_file(path: Path) -> bool:
    """Say whether there is such a file."""
    return stamp(path) not in (None, _FOLDER)


def is_folder(path: Path) -> bool:
    """Say whether there is such a folder."""
    return stamp(path) == _FOLDER
