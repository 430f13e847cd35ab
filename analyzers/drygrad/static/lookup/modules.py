"""Finds the files of modules as import would, without importing anything, and keeps their outlines."""

from __future__ import annotations

import sys
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from drygrad.files import read_file
from drygrad.static.lookup.outline import Outline, outline_of
from drygrad.static.lookup.probing import Stamp, is_file, is_folder, stamp

MAX_BYTES = 2_000_000
KEPT_OUTLINES = 1500


class OutOfTimeError(Exception):
    """The deadline passed before the answer was there."""


@dataclass(frozen=True, slots=True)
class Module:
    """A module or package; ``path`` is None for a namespace package, ``folders`` is empty for a plain module."""

    name: str
    path: Path | None
    folders: tuple[Path, ...] = ()

    @property
    def package(self) -> Module | None:
        """The package that a single leading dot means inside this module."""
        if self.folders:
            return self
        return None if self.path is None else _package(self.path.parent, self.name.rpartition(".")[0])

    @property
    def parent(self) -> Module | None:
        """The package around a package."""
        return _package(self.folders[0].parent, self.name.rpartition(".")[0]) if self.folders else None


class Modules:
    """Finds modules for the files of one project; knows files again by their time and size."""

    def __init__(self, root: Path, interpreter_paths: Iterable[str] = ()) -> None:
        self.root = root
        self.installed = tuple(_with_links(interpreter_paths))
        self.deadline = float("inf")
        self._outlines: OrderedDict[Path, tuple[Stamp, Outline]] = OrderedDict()

    def local_folders(self, origin: Path) -> tuple[Path, ...]:
        """Return the project's folders from which a file's packages may be imported, the likeliest first."""
        outside = (folder for folder in origin.parents if not is_file(folder / "__init__.py"))
        nearest = next(outside, origin.parent)
        above = [folder for folder in outside if folder == self.root or self.root in folder.parents]
        return tuple(dict.fromkeys([nearest, *above, self.root, self.root / "src"]))

    def find(self, name: str, origin: Path) -> Module | None:
        """Find a top-level module: the project's, the standard library's (None), an installed one, a sibling file."""
        local = self.local_folders(origin)
        module = self.find_in(local, name, name)
        if module is not None and module.path is not None:
            return module
        if name in sys.stdlib_module_names:
            return None
        return self.find_in((*local, *self.installed, origin.parent), name, name)

    def submodule(self, package: Module, name: str) -> Module | None:
        """Find a module within a package."""
        full_name = f"{package.name}.{name}" if package.name else name
        return self.find_in(package.folders, name, full_name)

    def find_in(self, folders: Iterable[Path], name: str, full_name: str) -> Module | None:
        """Find a module in folders; a folder without ``__init__`` counts only where nothing better is found."""
        namespace: list[Path] = []
        for folder in folders:
            place = folder / name
            for suffix in (".py", ".pyi"):
                if is_file(initial := place / f"__init__{suffix}"):
                    return Module(full_name, initial, (place,))
                if is_file(file := folder / f"{name}{suffix}"):
                    return Module(full_name, file)
            if is_folder(place):
                namespace.append(place)
        return Module(full_name, None, tuple(namespace)) if namespace else None

    def outline(self, module: Module) -> Outline:
        """Return what a module binds; nothing for one that cannot be read."""
        if module.path is None:
            return Outline()
        if time.monotonic() > self.deadline:
            raise OutOfTimeError
        try:
            state = stamp(module.path)
            if state is None:
                return Outline()
            known = self._outlines.get(module.path)
            if known is None or known[0] != state:
                text = read_file(module.path) if state[1] <= MAX_BYTES else b""
                known = (state, outline_of(text))
        except (OSError, ValueError):
            return Outline()
        self._outlines[module.path] = known
        self._outlines.move_to_end(module.path)
        if len(self._outlines) > KEPT_OUTLINES:
            self._outlines.popitem(last=False)
        return known[1]


@lru_cache(maxsize=8)
def modules_of(root: Path, interpreter_paths: tuple[str, ...]) -> Modules:
    """Return what finds the modules of a project, the same for all its files."""
    return Modules(root, interpreter_paths)


def module_at(path: Path) -> Module:
    """Return the module that a file is, named by the packages that it lies in."""
    names = [] if path.stem == "__init__" else [path.stem]
    for folder in path.parents:
        if not is_file(folder / "__init__.py"):
            break
        names.append(folder.name)
    return Module(".".join(reversed(names)), path, (path.parent,) if path.stem == "__init__" else ())


def _package(folder: Path, name: str) -> Module:
    initial = folder / "__init__.py"
    return Module(name, initial if is_file(initial) else None, (folder,))


def _with_links(paths: Iterable[str]) -> Iterator[Path]:
    """Yield the folders and those that their ``.pth`` files name (an editable installation), executing none."""
    for path in map(Path, paths):
        yield path
        try:
            for link in sorted(path.glob("*.pth")):
                lines = link.read_text("utf-8", errors="replace").splitlines()
                yield from (path / line for line in lines if line.strip() and _is_folder(path / line))
        except OSError:
            continue


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False
