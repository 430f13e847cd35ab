"""What a file imports from other files of its project: the definitions, read from their text."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

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


def neighbours_of(tree: ast.Module, path: Path, root: Path, buffers: Mapping[str, str]) -> Neighbours:
    """Return what a file imports, and what that refers to; ``buffers`` are texts that count before the disk's."""
    found = Neighbours()
    modules = _modules(root)
    files: dict[Path, Names] = {}
    waiting: list[tuple[Path, ast.Module, Names, int]] = [(path, tree, found.imported, 0)]
    while waiting:
        origin, text, names, depth = waiting.pop(0)
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
                if names is found.imported and isinstance(node, ast.ClassDef):
                    found.texts[id(node)] = name
    return found


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
