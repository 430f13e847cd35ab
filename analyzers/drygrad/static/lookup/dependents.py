"""Which programs of a workspace come to a definition: they import its file, directly or not, and name what uses it."""

from __future__ import annotations

import ast
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from drygrad.files import read_file
from drygrad.parsing import parsed
from drygrad.static.lookup.approaches import approaches, nearness, read_in
from drygrad.static.lookup.imports import files_imported
from drygrad.static.lookup.modules import MAX_BYTES, Modules, OutOfTimeError
from drygrad.static.lookup.users import Defined, is_named_test, workspace_files
from drygrad.static.toplevel import is_main_block, runs_something

MOST = 8
_FARTHEST = 6
_IMPORTED = re.compile(rb"^[ \t]*(?:from|import)\b(?:[^(\n]*\([^)]*\)|[^\n]*)", re.MULTILINE)
_LOOPS = (ast.For, ast.While)
_STARTERS = frozenset(("unittest.main", "pytest.main", "run_tests"))
_AROUND_STARTERS = frozenset(("exit", "ArgumentParser", "parse_known_args"))
_WORD = re.compile(rb"\w+")


@dataclass(frozen=True)
class Dependent:
    """A program that comes to a definition over so many imports; ``names`` says whether what it names leads there.

    ``tests`` are those of its tests that name it, where it is a file of tests for ``pytest``.
    """

    path: Path
    imports: int
    names: bool
    tests: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {"path": str(self.path), "imports": self.imports, "names": self.names, "tests": self.tests}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Dependent:
        """Read what ``to_json`` wrote."""
        tests = tuple(map(str, data["tests"]))
        return cls(Path(data["path"]), int(data["imports"]), data["names"] is True, tests)


@dataclass
class _File:
    """A file, and the words of its imports; ``tree`` is known of those whose words were of interest."""

    text: bytes
    words: frozenset[bytes]
    tree: ast.Module | None = None
    imports: frozenset[Path] | None = None


class Dependents:
    """Looks for them in one workspace, as far as the time goes that is given."""

    def __init__(self, modules: Modules, until: float) -> None:
        self._modules = modules
        self._until = until
        self._files: dict[Path, _File] = {}
        self._names: dict[Path, frozenset[str]] = {}
        """By the files that were found, the names in them that lead to the definition."""
        self._own = Path()
        self._approaches: Mapping[str, int] = {}

    def of(self, at: Defined, function: str = "") -> list[Dependent]:
        """Return the programs that come to a definition, perhaps its own file, the likeliest to call it first.

        ``function`` is what is to be called of it, by its qualified name.
        """
        found = [Dependent(at.path, 0, names=True)]
        self._own = at.path
        self._modules.deadline = self._until
        with suppress(OutOfTimeError):
            self._read(at.path)
            self._names[at.path] = _leading(self._tree(at.path), {at.name})
            self._approaches = approaches(self._tree(at.path), function or at.name)
            nearest = [at.path]
            for count in range(1, _FARTHEST + 1):
                nearest = self._importing(nearest)
                found += [Dependent(path, count, names=bool(self._names[path])) for path in nearest]
        self._modules.deadline = float("inf")
        programs = map(self._with_tests, (one for one in found if one.path in self._files))
        return sorted(filter(self._is_program, programs), key=self._rank)[:MOST]

    def _with_tests(self, one: Dependent) -> Dependent:
        body = self._tree(one.path).body
        if not is_test(one.path) or any(is_main_block(s) and not _starts_tests(s) for s in body):
            return one
        names = self._names.get(one.path, frozenset())
        named = [(name, read_in(s)) for s in body for name in _tests(s)]
        named = [(name, read) for name, read in named if not names.isdisjoint(read)]
        ranked = sorted(named, key=lambda test: nearness(test[1], self._approaches))
        return replace(one, tests=tuple(name for name, _ in ranked))

    def _is_program(self, one: Dependent) -> bool:
        return bool(one.tests) or (one.path.stem != "__init__" and runs_something(self._tree(one.path)))

    def _rank(self, one: Dependent) -> tuple[Any, ...]:
        """Return what puts tests first, those that call the function itself or what comes to it over the fewest calls.

        Of other programs, those that are more than a few statements come first.
        """
        tree = self._tree(one.path)
        works = any(is_main_block(statement) or isinstance(statement, _LOOPS) for statement in tree.body)
        nearest = nearness(read_in(tree), self._approaches) if one.imports else 0
        near = nearest, -len(_words(self._own) & _words(one.path))
        of_tests = near if one.tests else ()
        return not one.names, not one.tests, of_tests, not works, near, one.imports, str(one.path)

    def _read(self, own: Path) -> None:
        self._files[own] = _File(b"", frozenset())  # one that is not saved yet
        for path in (own, *workspace_files(self._modules.root)):
            self._look_at_the_clock()
            with suppress(OSError):
                text = read_file(path) if path.stat().st_size <= MAX_BYTES else b""
                words = frozenset(_WORD.findall(b" ".join(_IMPORTED.findall(text))))
                self._files[path] = _File(text, words)

    def _importing(self, nearest: Sequence[Path]) -> list[Path]:
        """Return the files that import one of those that were found last, and were not found before."""
        words = {(path.parent.name if path.stem == "__init__" else path.stem).encode() for path in nearest}
        found: list[Path] = []
        for path, file in self._files.items():
            if path not in self._names and not words.isdisjoint(file.words):
                self._look_at_the_clock()
                if not self._imports(path).isdisjoint(nearest):
                    found.append(path)
        self._names |= dict.fromkeys(found, frozenset[str]())
        self._name(found)
        return found

    def _name(self, paths: Sequence[Path]) -> None:
        """Find which names of some files lead on, and of those that import them, where these then have more."""
        waiting = dict.fromkeys(paths)
        while waiting:
            self._look_at_the_clock()
            path = next(iter(waiting))
            del waiting[path]
            names = self._names[path] | self._leading(path)
            if len(names) > len(self._names[path]):
                self._names[path] = names
                waiting |= {other: None for other in self._names if path in self._imports(other)}

    def _imports(self, path: Path) -> frozenset[Path]:
        file = self._files[path]
        if file.imports is None:
            file.imports = frozenset(files_imported(self._modules, path, self._tree(path)))
        return file.imports

    def _leading(self, path: Path) -> frozenset[str]:
        """Return the names of a file that lead on: those that it imports, and what it makes of them."""
        known = [other for other in self._imports(path) if other in self._names]
        offered = {name for other in known for name in self._names[other]}
        modules = {other.parent.name if other.stem == "__init__" else other.stem for other in known}
        tree = self._tree(path)
        aliases = [a for n in ast.walk(tree) if isinstance(n, (ast.Import, ast.ImportFrom)) for a in n.names]
        names = {a.asname or a.name for a in aliases if a.name in offered}
        names |= offered if any(a.name == "*" for a in aliases) else set()
        whole = {a.asname for a in aliases if a.asname and a.name.rpartition(".")[2] in modules}
        return _leading(tree, names | _read_of(tree, offered, modules | whole))

    def _tree(self, path: Path) -> ast.Module:
        file = self._files[path]
        if file.tree is None:
            file.tree = _parsed(file.text)
        return file.tree

    def _look_at_the_clock(self) -> None:
        if time.monotonic() > self._until:
            raise OutOfTimeError


def _words(path: Path) -> set[str]:
    """Return the words of a file's name."""
    return {*path.stem.strip("_").split("_")} - {"test", "tests"}


def _tests(statement: ast.stmt) -> Iterator[str]:
    """Yield the name of what ``pytest`` takes for a test, or for a class of tests."""
    if isinstance(statement, ast.FunctionDef) and statement.name.startswith("test"):
        yield statement.name
    if isinstance(statement, ast.ClassDef):
        methods = (inner.name for inner in statement.body if isinstance(inner, ast.FunctionDef))
        inherits = any(ast.unparse(base).endswith("TestCase") for base in statement.bases)
        yield from [statement.name] if inherits or any(name.startswith("test") for name in methods) else []


def _starts_tests(main_block: ast.stmt) -> bool:
    """Say whether a main block does nothing but have the tests of its file run."""
    calls = {ast.unparse(n.func) for n in ast.walk(main_block) if isinstance(n, ast.Call)}
    others = {call.rpartition(".")[2] for call in calls - _STARTERS}
    return not calls.isdisjoint(_STARTERS) and others <= _AROUND_STARTERS


def _parsed(text: bytes) -> ast.Module:
    try:
        return parsed(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module([], [])


def _leading(tree: ast.Module, names: set[str]) -> frozenset[str]:
    """Return names, and those that the statements at top level bind which read one of them."""
    parts = [(_bound(statement), read_in(statement)) for statement in tree.body]
    found, before = {*names}, 0
    while len(found) > before:
        before = len(found)
        for bound, read in parts:
            found |= bound if not read.isdisjoint(found) else set()
    return frozenset(found)


def _bound(statement: ast.stmt) -> set[str]:
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return {statement.name}
    if isinstance(statement, (ast.If, ast.Try)):
        return {
            name for inner in ast.iter_child_nodes(statement) if isinstance(inner, ast.stmt) for name in _bound(inner)
        }
    return {n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def _read_of(tree: ast.Module, names: set[str], modules: set[str]) -> set[str]:
    """Return which of some names a text reads of one of some modules."""
    attributes = (n for n in ast.walk(tree) if isinstance(n, ast.Attribute) and n.attr in names)
    return {n.attr for n in attributes if ast.unparse(n.value).rpartition(".")[2] in modules}


def is_test(path: Path) -> bool:
    """Say whether a file has tests, by its name or that of its folder."""
    return is_named_test(path) or path.parent.name in ("test", "tests")
