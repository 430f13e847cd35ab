"""Which files of a workspace use what a file defines, and by what names: its tests, the scripts that import it."""

from __future__ import annotations

import ast
import os
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drygrad.files import read_file
from drygrad.folders import holds_users_code
from drygrad.parsing import parsed
from drygrad.static.lookup.answers import Question
from drygrad.static.lookup.light import Definition, Search
from drygrad.static.lookup.modules import MAX_BYTES, Modules, OutOfTimeError

MAX_FILES = 3000
"""The files of a larger workspace that come later are not looked at."""
MAX_USERS = 16
KEPT_FILES = 5000


@dataclass(frozen=True, slots=True)
class Defined:
    """Where a definition is: its file, and its name at top level."""

    path: Path
    name: str


@dataclass(frozen=True, slots=True)
class User:
    """A file that uses a definition: the names it has there, and the module that they are imported from."""

    path: Path
    names: tuple[str, ...]
    module: str

    def to_json(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {"path": str(self.path), "names": self.names, "module": self.module}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> User:
        """Read what ``to_json`` wrote."""
        return cls(Path(data["path"]), tuple(map(str, data["names"])), str(data["module"]))


@dataclass(frozen=True, slots=True)
class Reference:
    """A name that may mean a definition: what it is imported as, and a place where it ends (columns in characters)."""

    question: Question
    line: int
    column: int


Deep = Callable[[Reference, Path], "tuple[Defined, str] | None"]
"""Tells where what a file refers to is defined, and in what module, where the light look-up could not."""


class Users:
    """Looks for users in one workspace; knows files again by their time and size."""

    def __init__(self, modules: Modules) -> None:
        self.modules = modules
        self._known: OrderedDict[tuple[Path, str], tuple[tuple[int, int], dict[str, Reference]]] = OrderedDict()

    def of(self, at: Defined, until: float, deep: Deep) -> list[User]:
        """Return the users of a definition, tests first, as many as are found by a time of the monotonic clock."""
        found: list[User] = []
        self.modules.deadline = until
        with suppress(OutOfTimeError):
            for path in sorted(workspace_files(self.modules.root), key=lambda path: _rank(path, at)):
                if len(found) == MAX_USERS or time.monotonic() > until:
                    break
                user = self._user(path, at, deep)
                found += [user] if user is not None and not path.samefile(at.path) else []
        return found

    def _user(self, path: Path, at: Defined, deep: Deep) -> User | None:
        defined: dict[str, str] = {}
        for name, reference in self._references(path, at).items():
            module = self._module_of(reference, path, at, deep)
            if module is not None:
                defined[name] = module
        return User(path, tuple(defined), next(iter(defined.values()))) if defined else None

    def _module_of(self, reference: Reference, path: Path, at: Defined, deep: Deep) -> str | None:
        """Return the module that an imported name is defined in, if that is the place; jedi decides what is open."""
        question = reference.question
        target = Search(self.modules, path).target(question) if question.valid else None
        if isinstance(target, Definition):
            file = target.module.path
            return target.module.name if file and target.name == at.name and _same(file, at.path) else None
        said = deep(reference, path) if target is None and self._is_of_workspace(question, path) else None
        return said[1] if said and said[0].name == at.name and _same(said[0].path, at.path) else None

    def _is_of_workspace(self, question: Question, origin: Path) -> bool:
        """Say whether a name is imported from a file of the workspace: jedi need not read what is installed."""
        module = None if question.level else self.modules.find(question.parts[0], origin)
        return question.level > 0 or bool(module and module.path and module.path.is_relative_to(self.modules.root))

    def _references(self, path: Path, at: Defined) -> dict[str, Reference]:
        """Return the names in a file that may mean a definition, and what each is imported as."""
        try:
            state = path.stat()
            stamp, key = (state.st_mtime_ns, state.st_size), (path, at.name)
            known = self._known.get(key)
            if known is None or known[0] != stamp:
                text = read_file(path) if state.st_size <= MAX_BYTES else b""
                known = (stamp, references(text, at.name) if _mentions(text, at) else {})
        except (OSError, ValueError):
            return {}
        self._known[key] = known
        self._known.move_to_end(key)
        if len(self._known) > KEPT_FILES:
            self._known.popitem(last=False)
        return known[1]


def references(text: bytes, name: str) -> dict[str, Reference]:
    """Return the dotted names in a text that end in a name and begin with an import."""
    try:
        tree = parsed(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    nodes = [*ast.walk(tree)]
    imported, stars = _imported(nodes)
    found: dict[str, Reference] = {}
    for node in nodes:
        if isinstance(node, (ast.Name, ast.Attribute)) and (meant := _meaning(node, name, imported, stars)):
            found.setdefault(
                ast.unparse(node), Reference(Question(meant), node.end_lineno or 1, _last_column(node, text))
            )
    return found


def _meaning(node: ast.Name | ast.Attribute, name: str, imported: Mapping[str, str], stars: Sequence[str]) -> str:
    """Return what a name or a chain of attributes is imported as; nothing where it cannot mean the definition."""
    if isinstance(node, ast.Name):
        full = imported.get(node.id, f"{stars[-1]}{name}" if stars and node.id == name else "")
        return full if full.rpartition(".")[2] == name else ""
    root, _, rest = ast.unparse(node).partition(".") if node.attr == name else ("", "", "")
    return f"{imported[root]}.{rest}" if root in imported and rest.replace(".", "").isidentifier() else ""


def _last_column(node: ast.expr, text: bytes) -> int:
    """Return the column of the last character of a node, in characters."""
    line = text.split(b"\n")[(node.end_lineno or 1) - 1]
    return len(line[: (node.end_col_offset or 1) - 1].decode("utf-8", "replace"))


def _imported(nodes: Iterable[ast.AST]) -> tuple[dict[str, str], list[str]]:
    """Return what imported names stand for, and what comes before the names that ``import *`` brings."""
    imported: dict[str, str] = {}
    stars: list[str] = []
    for node in nodes:
        if isinstance(node, ast.Import):
            imported |= {a.asname or a.name.partition(".")[0]: _meant(a) for a in node.names}
        elif isinstance(node, ast.ImportFrom):
            start = f"{'.' * node.level}{node.module or ''}{'.' if node.module else ''}"
            imported |= {a.asname or a.name: f"{start}{a.name}" for a in node.names if a.name != "*"}
            stars += [start] if node.names[0].name == "*" else []
    return imported, stars


def _meant(alias: ast.alias) -> str:
    return alias.name if alias.asname else alias.name.partition(".")[0]


def _mentions(text: bytes, at: Defined) -> bool:
    """Say whether a text has the name, and that of the file or of a folder around it."""
    folders = (at.path.stem, *(folder.name for folder in at.path.parents[:3]))
    return at.name.encode() in text and any(name.encode() in text for name in folders if name)


def workspace_files(root: Path) -> Iterator[Path]:
    """Yield the Python files of a workspace, those near its top first."""
    waiting, count = [str(root)], 0
    for folder in waiting:
        for entry in _entries(folder):
            if entry.is_dir(follow_symlinks=False):
                waiting += [entry.path] if holds_users_code(entry) else []
            elif entry.name.endswith(".py"):
                count += 1
                if count > MAX_FILES:
                    return
                yield Path(entry.path)


def _entries(folder: str) -> Iterable[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return ()


def _rank(path: Path, at: Defined) -> tuple[bool, bool, str]:
    """Return what puts tests before other files, and those of the same name before others."""
    return (not is_named_test(path), at.path.stem not in path.stem, str(path))


def is_named_test(path: Path) -> bool:
    """Say whether a file is one of tests, by its name."""
    return path.stem.startswith("test_") or path.stem.endswith("_test")


def _same(one: Path, other: Path) -> bool:
    return one == other or (one.name == other.name and one.exists() and one.samefile(other))
