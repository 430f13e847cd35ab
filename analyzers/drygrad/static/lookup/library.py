"""The files of a project that others call: read when a call leads there, and kept as long as they stay as they are."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from threading import RLock

from drygrad.files import read_file
from drygrad.static.facts.linked import home_of
from drygrad.static.facts.module import OTHERS
from drygrad.static.facts.other_file import OtherFile
from drygrad.static.facts.values import Class, Function, Value
from drygrad.static.lookup.answers import Question
from drygrad.static.lookup.light import Definition, Search
from drygrad.static.lookup.modules import Module, Modules, OutOfTimeError, module_at, modules_of
from drygrad.static.lookup.outline import Import, Outline
from drygrad.static.lookup.probing import Stamp, is_file, is_noting, stamp, unnoted_stamp

MAX_BYTES = 300_000
"""Larger files are data or made by a program, as a rule."""
MAX_NEW_FILES = 40
"""Files read for one file that is looked at: those beyond add seconds, and little to what is known."""
KEPT_FILES = 300


@dataclass
class Library:
    """Finds what imports of a project's files lead to, in other files of the project."""

    modules: Modules
    _files: OrderedDict[Path, tuple[Stamp, OtherFile | None]] = field(
        default_factory=OrderedDict[Path, tuple[Stamp, "OtherFile | None"]]
    )
    _found: dict[tuple[Path, str], Value | None] = field(default_factory=dict[tuple[Path, str], "Value | None"])
    _called: dict[Path, set[Path]] = field(default_factory=dict[Path, "set[Path]"])
    _under_way: set[Path] = field(default_factory=set[Path])
    _lock: RLock = field(default_factory=RLock)
    _allowed: int = MAX_NEW_FILES
    version: int = 0

    def links(self, path: Path, names: Iterable[str] | None = None) -> FileLinks:
        """Return what leads from a file to what some names stand for that it imports, or (None) to whatever it imports.

        The names are looked for now, the files read: no check that only those may be asked of waits for a disk.
        """
        with self._lock:
            self._refresh()
            if names is None:
                return FileLinks(self, path, None, self.version, self._setters(path))
            known = frozenset(name for name in names if self.find(path, name) is not None)
            return FileLinks(self, path, known, self.version, self._setters(path))

    def _setters(self, path: Path) -> frozenset[str]:
        """Return the functions that the packages around a file may call to change torch's defaults, when imported.

        Those of a package are what its ``__init__`` calls, and the modules of its own that this imports.
        """
        self.modules.deadline = float("inf")
        found: set[str] = set()
        for folder in path.parents:
            if not folder.is_relative_to(self.modules.root) or not is_file(folder / "__init__.py"):
                break
            package = module_at(folder / "__init__.py")
            outline = self.modules.outline(package)
            found |= outline.setters
            for name in {*_own_modules(package.name, outline)}:
                found |= self.modules.outline(Module(f"{package.name}.{name}", folder / f"{name}.py")).setters
        return frozenset(found)

    def _refresh(self) -> None:
        """Forget what has been found where a file has changed since."""
        self._allowed = MAX_NEW_FILES
        changed = [path for path, (known, _) in self._files.items() if unnoted_stamp(path) != known]
        if changed:
            self._files.clear()
            self._found.clear()
            self._called.clear()
            self.version += 1

    def find(self, path: Path, name: str) -> Value | None:
        """Return the function or class that a name stands for which a file imports; None where it is none."""
        key = (path, name)
        with self._lock:
            if key not in self._found:
                self._found[key] = None  # while it is looked for: files import each other
                self._found[key] = self._defined(path, name)
            found = self._found[key]
        home = home_of(found) if isinstance(found, (Class, Function)) else None
        if home is not None:
            self._note(path, home)
        return found

    def _note(self, path: Path, home: OtherFile) -> None:
        """Note that what a file says rests on another one, and on those that this one has called."""
        self._called.setdefault(path, set()).add(home.path)
        waiting, seen = [home.path], {path}
        while waiting and is_noting():
            other = waiting.pop()
            if other not in seen:
                seen.add(other)
                stamp(other)
                waiting.extend(self._called.get(other, ()))

    def _defined(self, path: Path, name: str) -> Value | None:
        question = Question(name)
        self.modules.deadline = float("inf")
        try:
            target = Search(self.modules, path).target(question) if question.valid else None
        except (OutOfTimeError, RecursionError):
            return None
        if not isinstance(target, Definition) or target.module.path is None or target.module.path == path:
            return None
        file = self._file(target.module.path)
        value = file.globals.get(target.name) if file is not None else None
        return value if isinstance(value, (Class, Function)) else None

    def _file(self, path: Path) -> OtherFile | None:
        known = self._files.get(path)
        if known is None:
            if self._allowed <= 0 or path in self._under_way or not self._is_own(path):
                return None
            self._allowed -= 1
            known = self._read(path)
        self._files[path] = known
        self._files.move_to_end(path)
        if len(self._files) > KEPT_FILES:
            self._files.popitem(last=False)
        return known[1]

    def _read(self, path: Path) -> tuple[Stamp, OtherFile | None]:
        state = stamp(path) or (0, 0)
        self._under_way.add(path)
        try:
            text = read_file(path).decode("utf-8") if 0 < state[1] <= MAX_BYTES else ""
            links = FileLinks(self, path, None, self.version, self._setters(path))
            return state, OtherFile.of(path, text, links) if text else None
        except (OSError, ValueError):
            return state, None
        finally:
            self._under_way.discard(path)

    def _is_own(self, path: Path) -> bool:
        """Say whether a file is one of the project's, and none that is installed within it."""
        root = self.modules.root
        if path.suffix != ".py" or root not in path.parents:
            return False
        return not {"site-packages", "dist-packages"} & set(path.relative_to(root).parts)


def _own_modules(package: str, outline: Outline) -> Iterator[str]:
    """Yield the first names below a package of what its ``__init__`` imports: as a rule, modules of its own."""
    imports = [binding.target for binding in outline.bindings.values() if isinstance(binding, Import)]
    for target in (*imports, *outline.stars):
        for prefix in (".", f"{package}."):
            if target.startswith(prefix) and not target.startswith(".."):
                yield target.removeprefix(prefix).partition(".")[0]


@lru_cache(maxsize=8)
def library_of(root: Path, interpreter_paths: tuple[str, ...]) -> Library:
    """Return the library of a project, the same for all its files."""
    return Library(modules_of(root, interpreter_paths))


@dataclass(frozen=True)
class FileLinks:
    """What leads from one file to others: by the ``names`` that it imports, or (None) by whatever it imports."""

    library: Library = field(compare=False)
    path: Path
    names: frozenset[str] | None
    state: int
    setters: frozenset[str] = frozenset()

    @property
    def version(self) -> object:
        """What tells one state of the other files from another."""
        return self

    @property
    def leads(self) -> bool:
        """Whether any name leads anywhere."""
        return self.names is None or bool(self.names)

    def find(self, name: str) -> Value | None:
        """Return the function or class that an imported name stands for; None where nobody has told."""
        if name.startswith(OTHERS):
            path, _, written = name.removeprefix(OTHERS).partition(">")
            return self.library.find(Path(path), written)
        return self.library.find(self.path, name) if self.names is None or name in self.names else None
