"""The module in which the user's text is executed, and how modules of the workspace are found: buffers first."""

from __future__ import annotations
import __future__

import ast
import importlib
import linecache
import os
import sys
import types
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import decode_source, spec_from_file_location
from itertools import groupby
from types import CodeType, ModuleType
from typing import Any, ClassVar, cast

import torch

from drygrad.worker.absent import Absences
from drygrad.worker.lines import Lines
from drygrad.worker.weave import weave

Start = tuple[int, int]
"""Where a statement starts: line, column in UTF-8 bytes."""

Read = Callable[[ast.AST], None]
"""Hears of the tree of each module of the user's before it is executed."""

Heard = Callable[[str, str, ast.AST], None]
"""Hears of its path and its text, too."""

_IMPORTING = ("<frozen importlib", os.path.dirname(importlib.__file__), os.path.dirname(os.path.abspath(__file__)))
"""The files of the machinery of imports, and our own."""

_LENT: dict[str, Any] = {"torch": torch, "types": types}
"""What the text of an input may use though the user's text does not import it."""


class PackageLoader(SourceFileLoader):
    """Loads the package of the module that the run is about, which is its attribute from the beginning."""

    def exec_module(self, module: ModuleType) -> None:
        """Execute the package."""
        for awaited in _Awaited.catching_up:
            package, _, name = awaited.__name__.rpartition(".")
            if package == module.__name__:
                setattr(module, name, awaited)
        super().exec_module(module)


class WovenLoader(PackageLoader):
    """Loads a module of the user's: the editor's text before the disk's, with bounded loops."""

    def __init__(
        self,
        name: str,
        path: str,
        text: str | None,
        heard: Heard,
        absences: Absences,
        *,
        observe: bool,
    ) -> None:
        super().__init__(name, path)
        self._absences = absences
        self._observe = observe
        self._text = text
        self._heard = heard

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Return the module to execute; None for a new one."""
        return self._absences.interrupted(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Execute the module."""
        self._absences.begins(module)
        super().exec_module(module)

    def get_code(self, fullname: str) -> CodeType:
        """Compile the text; nothing compiled earlier is taken, and nothing is written."""
        path = self.get_filename(fullname)
        source = self._text.encode("utf-8") if self._text is not None else self.get_data(path)
        tree = ast.parse(source, path)
        self._heard(path, self._text if self._text is not None else decode_source(source), tree)
        tree.body = self._absences.without(path, tree.body)
        woven = weave(tree, observe=self._observe, blocks_of=path)
        return compile(woven, path, "exec", dont_inherit=True)

    def get_source(self, fullname: str) -> str | None:
        """Return the text."""
        return self._text if self._text is not None else super().get_source(fullname)


class WorkspaceFinder:
    """Finds modules as Python does, and lends the user's own a loader of ours."""

    def __init__(
        self, lines: Lines, buffers: dict[str, str], read: Read, absences: Absences, around: Sequence[str] = ()
    ) -> None:
        self._lines = lines
        self._absences = absences
        self.observed: str | None = None
        """The file of the user's that is observed as the text of a run is, where a program imports it."""
        self._around = list(around)
        self._read = read
        self._buffers = {os.path.abspath(path): text for path, text in buffers.items()}

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: Any = None) -> ModuleSpec | None:
        """Return the spec of a module of the user's, or of the package around the one that is run; None for others."""
        spec = self._found(name, path, target) or self._unsaved(name, path)
        if spec is None and path is None and self._is_asked_by_program() and self._widened(name):
            spec = self._found(name, path, target)
        origin = spec.origin if spec else None
        if spec is None or origin is None or not origin.endswith(".py"):
            return None
        if not self._lines.is_user_file(origin):
            if type(spec.loader) is not SourceFileLoader or not _Awaited.is_within(name):
                return None
            spec.loader = PackageLoader(spec.name, origin)
        elif type(spec.loader) is SourceFileLoader:
            text, observe = self._buffers.get(os.path.abspath(origin)), os.path.abspath(origin) == self.observed
            spec.loader = WovenLoader(spec.name, origin, text, self._heard, self._absences, observe=observe)
            if text is not None:
                give_source(origin, text)
        return spec

    def _heard(self, path: str, text: str, tree: ast.AST) -> None:
        self._lines.give_source(path, text)
        self._read(tree)

    def _found(self, name: str, path: Sequence[str] | None, target: Any) -> ModuleSpec | None:
        for finder in sys.meta_path:
            if finder is not self and hasattr(finder, "find_spec"):
                spec = finder.find_spec(name, path, target)
                if spec is not None:
                    return spec
        return None

    def _is_asked_by_program(self) -> bool:
        """Say whether an import is the program's; one of an installed package may look for what it can do without."""
        frame: types.FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
        while frame is not None and frame.f_code.co_filename.startswith(_IMPORTING):
            frame = frame.f_back
        return frame is None or self._lines.is_user(frame.f_code)

    def _widened(self, name: str) -> bool:
        """Let a module be found that nothing else has but a folder around the program: it is run from there."""
        for folder in self._around:
            place = os.path.join(folder, name)
            entries = os.listdir(place) if os.path.isdir(place) else []
            if os.path.isfile(place + ".py") or any(entry.endswith(".py") for entry in entries):
                sys.path.append(folder)
                self._around.remove(folder)
                return True
        return False

    def _unsaved(self, name: str, path: Sequence[str] | None) -> ModuleSpec | None:
        """Find a module that is only in the editor yet."""
        last = name.rpartition(".")[2]
        for folder in sys.path if path is None else path:
            candidate = os.path.abspath(os.path.join(folder, last + ".py"))
            if candidate in self._buffers:
                return spec_from_file_location(name, candidate, loader=SourceFileLoader(name, candidate))
        return None


def give_source(path: str, text: str) -> None:
    """Let ``inspect`` and tracebacks see the text of the editor."""
    linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)


class _Awaited(ModuleType):
    """A module of which only some statements are executed, until another module wants a name that they do not bind."""

    def __init__(self, name: str, catch_up: Callable[[], None]) -> None:
        super().__init__(name)
        _Awaited.catching_up[self] = catch_up

    catching_up: ClassVar[dict[ModuleType, Callable[[], None]]] = {}
    """Apart from the modules, whose attributes are the user's names."""

    @classmethod
    def is_within(cls, package: str) -> bool:
        """Say whether one of them stands in a package."""
        return any(awaited.__name__.rpartition(".")[0] == package for awaited in cls.catching_up)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__") or name == "__all__":
            _Awaited.catching_up[self]()
        if name in vars(self):
            return vars(self)[name]
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")


class PackageError(Exception):
    """The package around the user's file cannot be imported; the cause says why."""

    def __init__(self, package: str) -> None:
        super().__init__(package)
        self.package = package


class Namespace:
    """The user's text, parsed and woven, and the module whose names it binds."""

    def __init__(
        self, plan: dict[str, Any], absences: Absences, observe: bool = True, blocks_of: str | None = None
    ) -> None:
        self.path: str = plan["path"]
        self._absences = absences
        self.tree = ast.parse(plan["text"], self.path)
        self.definitions = {node.name: node.lineno for node in self.tree.body if hasattr(node, "name")}  # type: ignore
        self._flags = _future_flags(self.tree)
        weave(self.tree, observe=observe, blocks_of=blocks_of)
        self._executed: set[Start] = set()
        self._executing: list[Start] = []
        self.module = self._module(str(plan.get("module_name") or "__main__"), str(plan.get("package") or ""))
        self.names: dict[str, Any] = vars(self.module)
        self.contexts = ExitStack()
        """The contexts that the target is called in: entering is the setup's work, leaving the caller's."""

    def _module(self, name: str, package: str) -> ModuleType:
        module = ModuleType(name) if name == "__main__" else _Awaited(name, self._catch_up)
        module.__file__ = self.path
        module.__package__ = package or (None if name == "__main__" else "")
        if name == package:
            module.__path__ = [os.path.dirname(self.path)]
        if self.path.endswith(".ipynb"):
            vars(module).update(display=print, get_ipython=lambda: None)
        sys.modules[name] = module
        return module

    def import_parent(self) -> None:
        """Import the package that the module is part of, as importing it would. ``PackageError`` if that fails."""
        package, _, name = self.module.__name__.rpartition(".")
        if package:
            try:
                parent = self._absences.excused(lambda: importlib.import_module(package))
            except Exception as error:
                raise PackageError(package) from error
            setattr(parent, name, self.module)

    def execute_all(self) -> None:
        """Execute the whole text."""
        self._run(self.tree.body)

    def execute_each(self) -> None:
        """Execute the whole text, statement by statement: imports that fail are passed over where they can be."""
        self._execute(self.tree.body)

    def _catch_up(self) -> None:
        """Execute all above the statement that is being executed, else the whole text: Python would have by now."""
        here = self._executing[-1] if self._executing else None
        for statement in self.tree.body:
            if here is not None and _start(statement) >= here:
                return
            self._execute([statement])

    def execute(self, steps: Sequence[Any]) -> None:
        """Take the steps of a setup in their order.

        A step is the start of a statement (line, column in UTF-8 bytes), an assignment that the text does not have,
        such as a loop's variables to the first item, or a context to enter.
        """
        index = _statements_by_start(self.tree)
        for step in steps:
            if isinstance(step, dict):
                self._arrange(cast("dict[str, Any]", step))
            else:
                self._execute(index.get((step[0], step[1]), []))

    def _arrange(self, step: dict[str, Any]) -> None:
        """Bind names or enter a context; errors stand at the place that the step was read from."""
        if "bind" in step:
            self._run([_placed(f"{step['bind']} = {step['to']}", step)])
            return
        entered = "_drygrad_entered"
        self._run([_placed(f"{entered} = {step['enter']}", step)])
        value = self.contexts.enter_context(self.names.pop(entered))
        if step.get("as"):
            self.names[step["as"]] = value

    def _execute(self, statements: list[ast.stmt]) -> None:
        """Execute the statements that were not executed yet, one by one, as those of a module."""
        for start, together in groupby(statements, _start):
            if start in self._executed:
                continue
            self._executed.add(start)
            self._executing.append(start)
            try:
                self._excused_run(list(together))
            finally:
                self._executing.pop()

    def _excused_run(self, statements: list[ast.stmt]) -> None:
        if all(isinstance(statement, (ast.Import, ast.ImportFrom)) for statement in statements):
            self._absences.excused(lambda: self._run(self._absences.without(self.path, statements)))
        else:
            self._run(statements)

    def _run(self, statements: list[ast.stmt]) -> None:
        code = compile(ast.Module(statements, []), self.path, "exec", flags=self._flags, dont_inherit=True)
        exec(code, self.names)

    def evaluate(self, spec: dict[str, Any], earlier: dict[str, Any]) -> Any:
        """Evaluate the text of an input where earlier inputs are names; errors stand where the text stands.

        What the text itself names (``net := Net()``) is added to these names.
        """
        tree = ast.parse(str(spec["text"]).strip(), mode="eval")
        line, column = spec.get("line"), spec.get("column") or 0
        if line:
            _shift(tree, line, column)
        where = self.path if line else "<dry-run input>"
        code = compile(tree, where, "eval", flags=self._flags, dont_inherit=True)
        scope = {**_LENT, **self.names, **earlier}
        value = eval(code, scope)
        named = {node.target.id for node in ast.walk(tree) if isinstance(node, ast.NamedExpr)}
        earlier.update({name: scope[name] for name in named & scope.keys()})
        return value


def _placed(text: str, step: dict[str, Any]) -> ast.stmt:
    """Parse a statement that is not in the text and give it the place of what it stands for."""
    statement = ast.parse(text).body[0]
    for node in ast.walk(statement):
        if isinstance(node, (ast.stmt, ast.expr, ast.keyword)):
            node.lineno = node.end_lineno = step["line"]
            node.col_offset = node.end_col_offset = step["column"]
    return statement


def _shift(tree: ast.AST, line: int, column: int) -> None:
    for node in ast.walk(tree):
        if isinstance(node, ast.expr):
            if node.lineno == 1:
                node.col_offset += column
            if node.end_lineno == 1 and node.end_col_offset is not None:
                node.end_col_offset += column
    ast.increment_lineno(tree, line - 1)


def _future_flags(tree: ast.Module) -> int:
    flags = 0
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            for alias in node.names:
                flags |= getattr(__future__, alias.name).compiler_flag
    return flags


def _start(statement: ast.stmt) -> Start:
    return statement.lineno, statement.col_offset


def _statements_by_start(tree: ast.Module) -> dict[Start, list[ast.stmt]]:
    """Index the statements by their start, each with the calls that were woven beside it."""
    index: dict[Start, list[ast.stmt]] = {}
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        for _, value in ast.iter_fields(node):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                beside: dict[Start, list[ast.stmt]] = {}
                for statement in cast("list[ast.stmt]", value):
                    beside.setdefault(_start(statement), []).append(statement)
                for start, statements in beside.items():
                    index.setdefault(start, statements)
        waiting += [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.expr)]
    return index
