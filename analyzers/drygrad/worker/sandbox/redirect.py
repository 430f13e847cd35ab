"""Where no overlay is to be had: file operations of Python and of torch go to copies, so that code that saves runs on.

Python's names are replaced in the process of one run, never in the interpreter that lives on. It is a convenience for
ordinary code, not a fence: what does not go through these names meets the kernel's layers and the audit hook.
"""

from __future__ import annotations

import builtins
import contextlib
import errno
import io
import os
import pathlib
import shutil
import sys
from collections.abc import Callable, Iterator
from typing import Any

try:
    import sqlite3
except ImportError:  # an interpreter may be built without it
    sqlite3 = None

from drygrad.worker.sandbox.shadow import Shadow, exists, is_folder, missing

_WRITING = os.O_WRONLY | os.O_RDWR
_active: list[Shadow] = []


def redirected() -> list[str]:
    """The paths that the run believes to have changed so far, the first few dozen."""
    return [path for shadow in _active for path in shadow.noted]


def install(folder: str) -> Shadow:
    """Redirect changes of files outside `folder` to copies in it, in this process, for good."""
    shadow = Shadow(folder)
    _active.append(shadow)
    for name, replacement in {**_readers(shadow), **_writers(shadow)}.items():
        _replace(name, replacement)
    opened = _opener(shadow, io.open)
    _replace_in_pathlib("open", io.open, opened)
    builtins.open = io.open = opened
    shutil.rmtree.avoids_symlink_attacks = False
    shutil._use_fd_functions = False  # pyright: ignore[reportAttributeAccessIssue]  # its folders are descriptors
    if "torch" in sys.modules:
        _redirect_torch(shadow, sys.modules["torch"])
    _redirect_sqlite(shadow)
    return shadow


def _replace(name: str, replacement: Callable[..., Any]) -> None:
    original = getattr(os, name, None)
    if original is None:
        return
    setattr(os, name, replacement)
    # shutil and others ask the os module which functions take a descriptor; those still do.
    for capabilities in (os.supports_fd, os.supports_dir_fd, os.supports_follow_symlinks):
        if original in capabilities:
            capabilities.add(replacement)
    _replace_in_pathlib(name, original, replacement)


def _replace_in_pathlib(name: str, original: Callable[..., Any], replacement: Callable[..., Any]) -> None:
    """Python 3.9 and 3.10 hold the functions a second time."""
    accessor = getattr(pathlib, "_normal_accessor", None)
    if getattr(accessor, name, None) is original:
        setattr(accessor, name, replacement)


def _readers(shadow: Shadow) -> dict[str, Callable[..., Any]]:
    """Functions that find the copy where there is one."""

    def reading(original: Callable[..., Any]) -> Callable[..., Any]:
        def read(path: Any = ".", *arguments: Any, **options: Any) -> Any:
            place = None if options.get("dir_fd") is not None else shadow.outside(path)
            return original(path if place is None else _same_type(path, shadow.view(place)), *arguments, **options)

        return read

    listing, scanning = os.listdir, os.scandir

    def listdir(path: Any = ".") -> Any:
        place = shadow.outside(path)
        return listing(path) if place is None or isinstance(path, bytes) else shadow.names(place)

    def scandir(path: Any = ".") -> Any:
        place = shadow.outside(path)
        return scanning(path) if place is None or isinstance(path, bytes) else _Entries(shadow, place, scanning)

    plain = {name: reading(getattr(os, name)) for name in ("stat", "lstat", "access", "readlink", "chdir")}
    return {**plain, "listdir": listdir, "scandir": scandir}


class _Entries:
    """What `os.scandir` gives: an iterator that is also a context."""

    def __init__(self, shadow: Shadow, path: str, scan: Callable[[str], Any]) -> None:
        self._entries = self._merge(set(shadow.names(path)), (shadow.copy(path), path), scan)

    @staticmethod
    def _merge(names: set[str], folders: tuple[str, ...], scan: Callable[[str], Any]) -> Iterator[os.DirEntry[str]]:
        for folder in folders:
            with contextlib.suppress(FileNotFoundError), scan(folder) as entries:
                for entry in entries:
                    if entry.name in names:
                        names.discard(entry.name)
                        yield entry

    def __iter__(self) -> _Entries:
        return self

    def __next__(self) -> os.DirEntry[str]:
        return next(self._entries)

    def __enter__(self) -> _Entries:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._entries = iter(())


def _writers(shadow: Shadow) -> dict[str, Callable[..., Any]]:
    """Functions that change a copy."""
    real: dict[str, Callable[..., Any]] = {name: getattr(os, name) for name in "open rmdir rename".split()}

    def in_place(original: Callable[..., Any]) -> Callable[..., Any]:
        def change(path: Any, *arguments: Any, **options: Any) -> Any:
            place = None if options.get("dir_fd") is not None else shadow.outside(path)
            if place is None:
                return original(path, *arguments, **options)
            _require(shadow, place)
            return original(shadow.owned(place), *arguments, **options)

        return change

    def removing(original: Callable[..., Any]) -> Callable[..., Any]:
        def remove(path: Any, *, dir_fd: int | None = None) -> None:
            place = None if dir_fd is not None else shadow.outside(path)
            if place is None:
                original(path, dir_fd=dir_fd)
                return
            _require(shadow, place)
            if original is real["rmdir"] and shadow.names(place):
                raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), place)
            original(shadow.owned(place))
            shadow.hide(place)

        return remove

    def rename(source: Any, target: Any, **options: Any) -> None:
        places = shadow.outside(source), shadow.outside(target)
        if options or places == (None, None):
            real["rename"](source, target, **options)
            return
        start, end = places
        if start is not None:
            _require(shadow, start)
        moved = source if start is None else shadow.owned_tree(start)
        real["rename"](moved, target if end is None else shadow.fresh(end))
        for place in (start, end):
            if place is not None:
                shadow.hide(place)

    def opening(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        place = None if dir_fd is not None else shadow.outside(path)
        return real["open"](path if place is None else _opened(shadow, place, flags), flags, mode, dir_fd=dir_fd)

    def linking(original: Callable[..., Any], *, symbolic: bool) -> Callable[..., Any]:
        def link(source: Any, target: Any, *arguments: Any, **options: Any) -> None:
            place = shadow.outside(target)
            if place is not None:
                _refuse_existing(shadow, place)
                target = shadow.fresh(place)
            outside = None if symbolic else shadow.outside(source)
            original(source if outside is None else shadow.owned(outside), target, *arguments, **options)

        return link

    changed = {name: in_place(getattr(os, name)) for name in _IN_PLACE if hasattr(os, name)}
    links = {"symlink": linking(os.symlink, symbolic=True), "link": linking(os.link, symbolic=False)}
    remove = removing(os.unlink)
    renames = {"rename": rename, "replace": rename}
    removals = {"unlink": remove, "remove": remove, "rmdir": removing(os.rmdir)}
    return {**changed, **links, **removals, **renames, **_makers(shadow), "open": opening}


def _makers(shadow: Shadow) -> dict[str, Callable[..., Any]]:
    """Functions that make what was not there."""

    def making(original: Callable[..., Any]) -> Callable[..., Any]:
        def make(path: Any, *arguments: Any, **options: Any) -> None:
            place = None if options.get("dir_fd") is not None else shadow.outside(path)
            if place is None:
                original(path, *arguments, **options)
                return
            _refuse_existing(shadow, place)
            original(shadow.fresh(place), *arguments, **options)

        return make

    return {name: making(getattr(os, name)) for name in ("mkdir", "mkfifo", "mknod") if hasattr(os, name)}


_IN_PLACE = "chmod lchmod chown lchown utime truncate setxattr removexattr".split()


def _opener(shadow: Shadow, original: Callable[..., Any]) -> Callable[..., Any]:
    def opened(file: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        place = shadow.outside(file)
        return original(file if place is None else _opened(shadow, place, _flags(mode)), mode, *arguments, **options)

    return opened


def _flags(mode: str) -> int:
    if "x" in mode:
        return os.O_RDWR | os.O_CREAT | os.O_EXCL
    if "w" in mode:
        return os.O_RDWR | os.O_CREAT | os.O_TRUNC
    if "a" in mode:
        return os.O_RDWR | os.O_CREAT
    return os.O_RDWR if "+" in mode else os.O_RDONLY


def _opened(shadow: Shadow, place: str, flags: int) -> str:
    """The file to open instead of `place`."""
    if not flags & (_WRITING | os.O_CREAT | os.O_TRUNC):
        return shadow.view(place)
    if not flags & os.O_CREAT:
        _require(shadow, place)
    elif flags & os.O_EXCL:
        _refuse_existing(shadow, place)
    return shadow.fresh(place) if flags & os.O_TRUNC and not is_folder(shadow.view(place)) else shadow.owned(place)


def _require(shadow: Shadow, place: str) -> None:
    if not exists(shadow.view(place)):
        raise missing(place)


def _refuse_existing(shadow: Shadow, place: str) -> None:
    if exists(shadow.view(place)):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), place)


def _same_type(path: Any, text: str) -> Any:
    return os.fsencode(text) if isinstance(path, bytes) else text


def _redirect_sqlite(shadow: Shadow) -> None:
    if sqlite3 is None:
        return
    connect = sqlite3.connect

    def connecting(database: Any, *arguments: Any, **options: Any) -> Any:
        place = None if database in (":memory:", "") or options.get("uri") else shadow.outside(database)
        return connect(database if place is None else shadow.owned(place), *arguments, **options)

    sqlite3.connect = connecting


def _redirect_torch(shadow: Shadow, torch: Any) -> None:
    """The places where torch opens files in C++."""

    def translated(original: Callable[..., Any], position: int, choose: Callable[[str], str]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            place = shadow.outside(arguments[position]) if len(arguments) > position else None
            if place is not None:
                arguments = (*arguments[:position], choose(place), *arguments[position + 1 :])
            return original(*arguments, **options)

        return call

    class Writer(torch._C.PyTorchFileWriter):
        __init__ = translated(torch._C.PyTorchFileWriter.__init__, 1, shadow.fresh)

    class Reader(torch._C.PyTorchFileReader):
        __init__ = translated(torch._C.PyTorchFileReader.__init__, 1, shadow.view)

    torch._C.PyTorchFileWriter, torch._C.PyTorchFileReader = Writer, Reader
    torch.from_file = translated(torch.from_file, 0, shadow.owned)
    torch.UntypedStorage.from_file = translated(torch.UntypedStorage.from_file, 0, shadow.owned)
    scripted = torch.jit.RecursiveScriptModule
    scripted.save = translated(scripted.save, 1, shadow.fresh)
    torch._C.import_ir_module = translated(torch._C.import_ir_module, 1, shadow.view)
