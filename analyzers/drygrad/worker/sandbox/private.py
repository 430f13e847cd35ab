"""The private folder of a worker without an overlay: locked while in use, removed after, swept if left over."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path

_PREFIX = "drygrad-run-"
_TRIES = 5


@contextlib.contextmanager
def folder(parent: str | None) -> Generator[str]:
    """A fresh folder in `parent` (the system's temporary folder), and nothing left of it afterwards.

    A process that is killed leaves its folder behind but not its lock: the next start removes what nobody holds.
    """
    base = parent or tempfile.gettempdir()
    _sweep(base)
    outer, lock = _made(base)
    inner = Path(outer, "files")
    inner.mkdir()
    try:
        yield str(inner)
    finally:
        remove(outer)
        if lock is not None:
            os.close(lock)


def _made(base: str) -> tuple[str, int | None]:
    """Make a folder and lock it; another process that sweeps may take it before it is locked, so look again."""
    for _ in range(_TRIES):
        made = tempfile.mkdtemp(prefix=_PREFIX, dir=base)
        with contextlib.suppress(FileNotFoundError):
            lock = _lock(made)
            if sys.platform == "win32" or (lock is not None and Path(made).is_dir()):
                return made, lock
            if lock is not None:
                os.close(lock)
        remove(made)
    return tempfile.mkdtemp(prefix=_PREFIX, dir=base), None  # where there are no locks, nobody sweeps


def _sweep(base: str) -> None:
    if sys.platform == "win32":  # without locks nobody can tell what is left over from what is in use
        return
    for path in Path(base).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            if path.lstat().st_uid == os.getuid() and not path.is_symlink():
                lock = _lock(str(path))
                if lock is not None:
                    remove(str(path))
                    os.close(lock)


def _lock(path: str) -> int | None:
    """A descriptor that holds the lock of a folder; None if another process holds it, or the system has no locks."""
    if sys.platform == "win32":
        return None
    import fcntl

    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def remove(path: str) -> None:
    """Remove a tree, also folders that their owner made unreadable."""
    for parent, folders, _ in os.walk(path):
        for name in folders:
            with contextlib.suppress(OSError):
                Path(parent, name).chmod(0o700)
    shutil.rmtree(path, ignore_errors=True)
