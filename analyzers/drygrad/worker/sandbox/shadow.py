"""A tree of copies beside the real one: what is changed is copied first, what is removed is only hidden."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from typing import Any

_KERNEL_FOLDERS = ("/dev/", "/proc/", "/sys/")
_MOST_NOTED = 50

# The system's own, taken before they are redirected.
_stat, _lstat, _list = os.stat, os.lstat, os.listdir


class Shadow:
    """Where the files of a run really are: `view` to read one, `fresh` to create it, `owned` to change it."""

    def __init__(self, folder: str) -> None:
        self._folder = os.path.realpath(folder)
        self._tree = os.path.join(self._folder, "tree")
        self._hidden = set[str]()
        self.noted: list[str] = []

    def outside(self, path: Any) -> str | None:
        """The absolute path if it names a file whose changes are redirected, else None."""
        if not hasattr(path, "__fspath__") and not isinstance(path, (str, bytes)):
            return None
        text: str = os.path.abspath(os.fsdecode(path))
        if text.startswith((self._folder, *_KERNEL_FOLDERS)) or text.upper().endswith(os.sep + "NUL"):
            return None
        return text

    def copy(self, path: str) -> str:
        """Where the copy of an absolute path is or would be."""
        return self._tree + os.path.splitdrive(path)[1]

    def view(self, path: str) -> str:
        """The file that the run sees under this path: the copy, the real one, or one that does not exist."""
        copy = self.copy(path)
        return copy if exists(copy) or self._is_hidden(path) else path

    def fresh(self, path: str) -> str:
        """A place to create the file in. Raises `OSError` where the run sees no folder to hold it."""
        parent = os.path.dirname(path)
        if not is_folder(self.view(parent)):
            raise missing(path)
        self._note(path)
        os.makedirs(self.copy(parent), exist_ok=True)
        return self.copy(path)

    def owned(self, path: str) -> str:
        """A copy with the present content, to be changed."""
        seen, copy = self.view(path), self.fresh(path)
        if seen != copy and exists(seen):
            if is_folder(seen):
                os.makedirs(copy, exist_ok=True)
            else:
                shutil.copyfile(seen, copy)
        return copy

    def owned_tree(self, path: str) -> str:
        """A copy of a whole folder or file, to be moved."""
        copy = self.owned(path)
        if is_folder(copy):
            for name in self.names(path):
                self.owned_tree(os.path.join(path, name))
        return copy

    def names(self, path: str) -> list[str]:
        """What the run sees in a folder."""
        copy, real = self.copy(path), not self._is_hidden(path) and is_folder(path)
        if not real and not is_folder(copy):
            raise missing(path)
        names = set(_list(copy)) if is_folder(copy) else set[str]()
        if real:
            names |= {name for name in _list(path) if os.path.join(path, name) not in self._hidden}
        return sorted(names)

    def hide(self, path: str) -> None:
        """Let the real file under this path be seen no longer."""
        self._note(path)
        self._hidden.add(path)

    def _is_hidden(self, path: str) -> bool:
        return any(path == hidden or path.startswith(hidden + os.sep) for hidden in self._hidden)

    def _note(self, path: str) -> None:
        if path not in self.noted and len(self.noted) < _MOST_NOTED:
            self.noted.append(path)


def missing(path: str) -> FileNotFoundError:
    """What the system says of a file that is not there."""
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)


def exists(path: str) -> bool:
    """Whether there is a file, also if it is a link that leads nowhere."""
    try:
        _lstat(path)
    except (OSError, ValueError):
        return False
    return True


def is_folder(path: str) -> bool:
    """Whether there is a folder."""
    try:
        return stat.S_ISDIR(_stat(path).st_mode)
    except (OSError, ValueError):
        return False
