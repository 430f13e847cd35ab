"""The private folder of a worker without an overlay: locked while in use, removed after, swept if left over."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import sys
import tempfile
import uuid
from collections.abc import Generator, Iterator
from pathlib import Path

_PREFIX = "drygrad-run-"
_TRIES = 5
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)


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
    """Remove a tree, whatever its owner made of it: links are removed, not followed, and its depth does not matter."""
    if os.unlink not in os.supports_dir_fd or os.listdir not in os.supports_fd:
        shutil.rmtree(path, ignore_errors=True)
        return
    with contextlib.suppress(OSError):
        folder = os.open(path, _FOLDER)
        try:
            _empty(folder)
        finally:
            os.close(folder)
        Path(path).rmdir()


def _empty(root: int) -> None:
    """Empty a folder: what the folders in it hold is moved up into it, until all that is left can be removed.

    Every folder is held by a descriptor while it is changed, so that no name can come to mean another one.
    """
    os.fchmod(root, 0o700)
    moved = (uuid.uuid4().hex for _ in itertools.count())
    before: list[str] | None = None
    while (names := sorted(os.listdir(root))) and names != before:
        before = names
        for name in names:
            with contextlib.suppress(OSError):
                if not _is_unlinked(name, root):
                    _raise_contents(name, root, moved)
                    os.rmdir(name, dir_fd=root)


def _raise_contents(name: str, root: int, moved: Iterator[str]) -> None:
    folder = _opened(name, root)
    try:
        for inner in os.listdir(folder):
            if not _is_unlinked(inner, folder):
                os.close(_opened(inner, folder))  # a folder that may not be written to cannot be moved
                os.rename(inner, next(moved), src_dir_fd=folder, dst_dir_fd=root)
    finally:
        os.close(folder)


def _is_unlinked(name: str, folder: int) -> bool:
    """Remove a file or a link; False where the name is a folder's."""
    try:
        os.unlink(name, dir_fd=folder)
    except (IsADirectoryError, PermissionError):
        return False
    return True


def _opened(name: str, folder: int) -> int:
    """Open a folder in a folder, and let its owner in. Raises `OSError` for a link."""
    try:
        found = os.open(name, _FOLDER, dir_fd=folder)
    except PermissionError:
        _unlock(name, folder)
        found = os.open(name, _FOLDER, dir_fd=folder)
    os.fchmod(found, 0o700)
    return found


def _unlock(name: str, folder: int) -> None:
    if not hasattr(os, "O_PATH"):
        os.chmod(name, 0o700, dir_fd=folder, follow_symlinks=False)
        return
    handle = os.open(name, os.O_PATH | _FOLDER, dir_fd=folder)
    try:
        os.chmod(f"/proc/self/fd/{handle}", 0o700)
    finally:
        os.close(handle)
