"""What a file imports from other files of its project: the definitions, read from their text."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path
from typing import TypeAlias

from drygrad.dryrun.names import blocks
from drygrad.dryrun.targets import definitions
from drygrad.files import read_file
from drygrad.static.lookup.answers import Question
from drygrad.static.lookup.light import Definition, Search
from drygrad.static.lookup.modules import Modules, module_at
from drygrad.static.source import Source, SourceError

Defined: TypeAlias = "ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef"
Names: TypeAlias = "dict[str, Defined]"

_DEPTH = 2
_MOST_FILES = 24
_MOST_BASES = 8
_MOST_OF_PACKAGE = 800
_MOST_BYTES = 400_000
_FOREIGN = "site-packages"


@dataclass(frozen=True)
class Neighbours:
    """Definitions of other files.

    ``imported`` are those that the file itself imports, by its names; ``classes`` all that were come across, by their
    own; ``texts`` the expressions that read classes in the file, by the ids of their nodes; ``names`` what the code of
    a definition can refer to, by the id of its node.
    """

    imported: Names = field(default_factory=lambda: {})
    classes: dict[str, ast.ClassDef] = field(default_factory=lambda: {})
    texts: dict[int, str] = field(default_factory=lambda: {})
    names: dict[int, Names] = field(default_factory=lambda: {})
    read_derived: Callable[[str], list[tuple[str, ast.Module]]] = lambda name: []
    """Finds the files of the package with classes that derive from one of that name: what each is imported as."""

    def derived(self, bases: Iterable[str]) -> list[ast.ClassDef]:
        """Return the classes of other files of the package that derive from some by name, directly or not."""
        found: list[ast.ClassDef] = []
        waiting, seen = [*bases], set[str]()
        while waiting and len(seen) < _MOST_BASES:
            base = waiting.pop(0)
            if base in seen:
                continue
            seen.add(base)
            for module, tree in self.read_derived(base):
                names: Names = {}
                _enter(self, module, tree, names)
                classes = (node for node in names.values() if isinstance(node, ast.ClassDef))
                below = [n for n in classes if any(ast.unparse(b).rpartition(".")[2] == base for b in n.bases)]
                found += below
                waiting += [node.name for node in below]
        return found


def neighbours_of(tree: ast.Module, path: Path, root: Path, buffers: Mapping[str, str]) -> Neighbours:
    """Return what a file imports, and what that refers to; ``buffers`` are texts that count before the disk's."""
    found = Neighbours(read_derived=partial(_derived, path, buffers))
    modules = _modules(root)
    files: dict[Path, Names] = {}
    waiting: list[tuple[Path, ast.Module, Names, int]] = [(path, tree, found.imported, 0)]
    while waiting:
        origin, text, names, depth = waiting.pop(0)
        bound = {name for name, _ in _imports(_imported_at_once(text))} if names is found.imported else set[str]()
        for name, wanted in _imports(text):
            definition = _definition(modules, origin, wanted)
            if definition is None or definition.module.path in (None, path):
                continue
            place = definition.module.path
            assert place is not None
            if place not in files and len(files) < _MOST_FILES:
                files[place] = {}
                if (other := _read(place, buffers)) is not None:
                    _enter(found, definition.module.name, other, files[place])
                    if depth + 1 < _DEPTH:
                        waiting.append((place, other, files[place], depth + 1))
            node = files.get(place, {}).get(definition.name)
            if node is not None:
                names.setdefault(name, node)
                if name in bound and isinstance(node, ast.ClassDef):
                    found.texts[id(node)] = name
    return found


def _derived(path: Path, buffers: Mapping[str, str], name: str) -> list[tuple[str, ast.Module]]:
    """Return the files of the package around a file in which a class derives from one of that name."""
    home, dotted = path.parent, module_at(path).name
    for _ in range(dotted.count(".") - (path.stem == "__init__")):
        home = home.parent
    wanted = re.compile(rf"^class\s+\w+\([^)]*\b{re.escape(name)}\b", re.MULTILINE)
    found: list[tuple[str, ast.Module]] = []
    for place in islice(sorted(home.rglob("*.py") if "." in dotted else home.glob("*.py")), _MOST_OF_PACKAGE):
        text = _text(place, buffers)
        if place == path or not wanted.search(text) or (tree := _parsed(text)) is None:
            continue
        module = module_at(place).name
        whole = place.parent if place.stem == "__init__" else place.with_suffix("")
        if home.joinpath(*module.split(".")) == whole:  # a script elsewhere is found from its own folder only
            found.append((module, tree))
    return found


def _text(place: Path, buffers: Mapping[str, str]) -> str:
    try:
        return buffers.get(str(place)) or read_file(place).decode("utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def _enter(found: Neighbours, module: str, tree: ast.Module, names: Names) -> None:
    """Note the definitions of a file."""
    for name, node in definitions(tree.body):
        names[name] = node
        found.names[id(node)] = names
        if isinstance(node, ast.ClassDef):
            found.classes.setdefault(node.name, node)
            found.texts.setdefault(id(node), f"__import__({module!r}, fromlist=['_']).{name}")


def _definition(modules: Modules, origin: Path, wanted: str) -> Definition | None:
    question = Question(wanted)
    if not question.valid:
        return None
    found = Search(modules, origin).target(question)
    if not isinstance(found, Definition) or found.module.path is None:
        return None
    own = module_at(origin).name.partition(".")[0]
    is_own = found.module.name.partition(".")[0] == own or _FOREIGN not in found.module.path.parts
    return found if is_own and found.module.path.suffix == ".py" else None


def _imported_at_once(tree: ast.Module) -> ast.Module:
    """Return the imports that bind names when the file is run: not those in functions, nor those for type checkers."""
    found: list[ast.stmt] = []
    waiting = [*tree.body]
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            found.append(node)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            waiting += node.orelse
        elif not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            waiting += [inner for block in blocks(node) for inner in block]
    return ast.Module(found, [])


def _imports(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield the names that a file imports from others, each with what it is in full."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] not in ("torch", "__future__"):
            before = "." * node.level + (f"{node.module}." if node.module else "")
            yield from ((alias.asname or alias.name, before + alias.name) for alias in node.names)


def _read(path: Path, buffers: Mapping[str, str]) -> ast.Module | None:
    text = buffers.get(str(path))
    if text is not None:
        return _parsed(text)
    try:
        state = path.stat()
        return _of_disk(path, state.st_mtime_ns, state.st_size) if state.st_size < _MOST_BYTES else None
    except OSError:
        return None


@lru_cache(maxsize=256)
def _of_disk(path: Path, changed: int, size: int) -> ast.Module | None:
    try:
        return _parsed(read_file(path).decode("utf-8"))
    except (OSError, UnicodeDecodeError):
        return None


@lru_cache(maxsize=64)
def _parsed(text: str) -> ast.Module | None:
    try:
        return Source(text).tree
    except SourceError:
        return None


@lru_cache(maxsize=4)
def _modules(root: Path) -> Modules:
    return Modules(root)
