"""What a module of the project cannot import here: the run goes on without it, until something uses it.

The statement that fails as its module is imported is passed over, and the names that it would have bound are bound to
what raises its error where it is used: a run is stopped by what it needs, not by all that stands beside that.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import ast
import builtins
import inspect
import sys
import traceback
from abc import ABCMeta
from types import FrameType, ModuleType, TracebackType
from typing import Any, Callable, NamedTuple, TypeVar, cast

from drygrad.worker import errors, surroundings
from drygrad.worker.run import Place, Run

T = TypeVar("T")
ABSENT = "__drygrad_absent__"
_MOST = 200
_IMPORTS = (ast.Import, ast.ImportFrom)
_BINDING = (*_IMPORTS, ast.Assign, ast.AnnAssign, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_OPERATIONS = (
    "len iter contains index int float complex neg abs lt le gt ge "
    "add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod rmod pow rpow matmul rmatmul"
).split()
"""What no class takes part in: who does that with something absent uses its value."""
_RAISED = ("Error", "Exception", "Warning")


class _Failed(NamedTuple):
    """Why something is absent, and whose code may ask for it."""

    error: BaseException
    trace: TracebackType | None
    absences: Absences

    def again(self) -> BaseException:
        """Return the error as it was raised first."""
        return self.error.with_traceback(self.trace)


class Absences:
    """The statements that a run has passed over; they are known by their files and lines."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._lines: dict[str, set[int]] = {}
        self._told: set[str] = set()
        self._begun: dict[str, ModuleType] = {}
        self.importing = False
        """Whether modules are being defined, rather than used."""

    def excused(self, work: Callable[[], T]) -> T:
        """Import something; what fails on the way is passed over where it can be."""
        self.importing = True
        try:
            with self._run.imports.under_way():
                return self._again_and_again(work)
        finally:
            self.importing = False

    def _again_and_again(self, work: Callable[[], T]) -> T:
        while True:
            try:
                return work()
            except Exception as error:
                if not self._excuses(error):
                    raise

    def begins(self, module: ModuleType) -> None:
        """Hear of a module of the program's that is executed."""
        self._begun[module.__name__] = module

    def interrupted(self, name: str) -> ModuleType | None:
        """Return the module that was not imported to its end: where others know it, it is this one still."""
        return self._begun.get(name) if self._lines else None

    def _excuses(self, error: Exception) -> bool:
        """Say whether the import that has raised an error can be tried again, without the statement that failed."""
        found = self._failed(error)
        if found is None or sum(map(len, self._lines.values())) >= _MOST:
            return False
        path, node = found
        self._lines.setdefault(path, set()).add(node.lineno)
        self._tell(error, path, node)
        return True

    def _failed(self, error: Exception) -> tuple[str, ast.stmt] | None:
        """Return the innermost statement of a module's body behind an error that can be passed over, and its file.

        One that was passed over has failed before, and its error is raised where what stands for it is used.
        """
        found: tuple[str, ast.stmt] | None = None
        for frame, line in traceback.walk_tb(error.__traceback__):
            path = frame.f_code.co_filename
            if frame.f_code.co_name != "<module>" or not self.is_user(frame):
                continue
            node = _statement_at(self._run.lines.source(path) or [], line)
            if node is None or (path == self._run.lines.path and not isinstance(node, _IMPORTS)):
                continue
            if node.lineno not in self._lines.get(path, ()):
                found = path, node
        return found

    def _tell(self, error: Exception, path: str, node: ast.stmt) -> None:
        """Say what was passed over, unless something absent has caused it; an error of the program's is a fault."""
        outcome = errors.outcome_of(error, self._run)
        if outcome == "unsupported":
            return
        said = _said(error)
        if said in self._told:
            return
        self._told.add(said)
        where = self._run.where(path, node.lineno)
        self._run.note(f"continued without the failed import at {where}: {errors.shortened(said)}")
        if outcome == "failed":
            place = self._run.lines.place_of_error(error) or Place(path, node.lineno)
            fault = errors.user_error(error, place)
            fault.severity = "error"
            self._run.report(fault)

    def install(self) -> None:
        """Make what stands for something absent known to all modules."""
        setattr(builtins, ABSENT, self.stand_in)

    def stand_in(self, name: str, module: str = "") -> Any:
        """Return what stands for a name whose statement has just failed; of ``import a.b`` what there is of ``a``.

        A program may spell out the module of a ``from a.b import name`` elsewhere: whatever that module lacks is
        absent, too.
        """
        error = sys.exc_info()[1]
        assert error is not None
        failed = _Failed(error, error.__traceback__, self)
        if module:
            _complete(module, failed)
            return _named(name, failed)
        return _complete(name, failed) or _named(name, failed)

    def is_user(self, frame: FrameType) -> bool:
        """Say whether the program itself is asking."""
        return self._run.lines.is_user(frame.f_code)

    def without(self, path: str, body: list[ast.stmt]) -> list[ast.stmt]:
        """Return statements of a file with those that were passed over made such that they may fail."""
        lines = self._lines.get(path)
        return [each for node in body for each in _lenient(node, lines)] if lines else body


def _said(error: Exception) -> str:
    missing = surroundings.missing_package(error)
    if missing is not None:
        return missing.partition(";")[0]
    return f"{type(error).__name__}: {errors.first_line(error)}".rstrip(": ")


class Absent(ABCMeta):
    """The type of what stands for something absent: a class, so that it can be a base and an annotation.

    Where a module or a class is being defined it gives more of its kind; within functions it raises the error.
    """

    _drygrad_stands_for: _Failed

    def __call__(cls, *_: Any, **__: Any) -> Any:
        """Stand for what a decorator or a constant would be, as a module is defined."""
        return cls._more("()", sys._getframe(1))

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__") or not cls._drygrad_stands_for.absences.is_user(sys._getframe(1)):
            raise AttributeError(name)
        return cls._more(name, sys._getframe(1))

    def __getitem__(cls, _: Any) -> Any:
        return cls._more("[]", sys._getframe(1))

    @property
    def register(cls) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Stand for a registry's method, not for that of abstract classes."""
        return cls._more("register", sys._getframe(1))

    def __instancecheck__(cls, _: Any) -> bool:
        """Nothing is an instance of a class of a package that is not there; of others nobody knows."""
        stands_for = cls._drygrad_stands_for
        if not isinstance(stands_for.error, ModuleNotFoundError) and stands_for.absences.is_user(sys._getframe(1)):
            raise stands_for.again()
        return False

    def _more(cls, name: str, frame: FrameType) -> Absent:
        if cls._drygrad_stands_for.absences.importing and _is_defining(frame):
            return _named(name, cls._drygrad_stands_for)
        raise cls._drygrad_stands_for.again()


def _used(cls: Absent, *_: Any) -> Any:
    raise cls._drygrad_stands_for.again()


for _name in _OPERATIONS:
    setattr(Absent, f"__{_name}__", _used)

Absent.__name__ = Absent.__qualname__ = "drygrad.worker.Absent"  # an error that complains of it is drygrad's own


def _named(name: str, failed: _Failed) -> Absent:
    bases = (Exception,) if name.endswith(_RAISED) else ()
    return Absent(name, bases, {"_drygrad_stands_for": failed})


def _complete(name: str, failed: _Failed) -> ModuleType | None:
    """Return the package of a dotted name if it is there; what lies within it is absent from where it ends."""
    first, *further = name.split(".")
    there = sys.modules.get(first) if further else None
    within: Any = there
    for part in further if there is not None else ():
        if not hasattr(within, part):
            setattr(within, part, _named(part, failed))
            break
        within = getattr(within, part)
    return there


def _is_defining(frame: FrameType | None) -> bool:
    """Say whether the body of a module or class is being executed."""
    while frame is not None and frame.f_code.co_name.startswith("<") and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        frame = frame.f_back
    return frame is not None and not frame.f_code.co_flags & inspect.CO_OPTIMIZED


def _statement_at(lines: list[str], line: int) -> ast.stmt | None:
    """Return the innermost statement at a line outside of functions and classes, if what it binds is known."""
    try:
        body: list[ast.stmt] = ast.parse("\n".join(lines)).body
    except (SyntaxError, ValueError):
        return None
    while True:
        around = [node for node in body if _first_line(node) <= line <= (node.end_lineno or node.lineno)]
        if not around:
            return None
        node = around[-1]
        if isinstance(node, _BINDING):
            return node if _bound(node) is not None else None
        body = [each for each in ast.iter_child_nodes(node) if isinstance(each, ast.stmt)]
        if isinstance(node, ast.Try):
            body += [each for handler in node.handlers for each in handler.body]


def _first_line(node: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def _bound(node: ast.stmt) -> list[str] | None:
    """Return the names that a statement binds; None where the text does not tell them."""
    if isinstance(node, _IMPORTS):
        names = [alias.asname or alias.name for alias in node.names]
        return None if "*" in names else names
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    parts = [part for target in targets for part in (target.elts if isinstance(target, ast.Tuple) else [target])]
    names = [part.id for part in parts if isinstance(part, ast.Name)]
    return names if names and len(names) == len(parts) else None


def _lenient(node: ast.stmt, lines: set[int]) -> list[ast.stmt]:
    """Return a statement such that it may fail if it stands at one of the lines; blocks are looked into."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and node.lineno not in lines:
        return [node]
    if node.lineno in lines and isinstance(node, _BINDING):
        return [_guarded(part) for part in _parts(node)]
    for holder in (node, *getattr(node, "handlers", ())):
        for name in ("body", "orelse", "finalbody"):
            suite = getattr(holder, name, None)
            if isinstance(suite, list):
                inside = cast("list[ast.stmt]", suite)
                setattr(holder, name, [each for inner in inside for each in _lenient(inner, lines)])
    return [node]


def _parts(node: ast.stmt) -> list[ast.stmt]:
    """Return an import as one statement a name, so that those that are there are bound."""
    if isinstance(node, ast.Import):
        return [ast.copy_location(ast.Import([alias]), node) for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [ast.copy_location(ast.ImportFrom(node.module, [alias], node.level), node) for alias in node.names]
    return [node]


def _guarded(node: ast.stmt) -> ast.stmt:
    """Return a statement that binds what stands for its names where it fails."""
    module = node.module if isinstance(node, ast.ImportFrom) and not node.level else None
    bound = [_binding(name, module or "") for name in _bound(node) or ()]
    handler = ast.ExceptHandler(ast.Name("Exception", ast.Load()), None, bound)
    return ast.fix_missing_locations(ast.copy_location(ast.Try([node], [handler], [], []), node))


def _binding(name: str, module: str) -> ast.stmt:
    call = ast.Call(ast.Name(ABSENT, ast.Load()), [ast.Constant(name), ast.Constant(module)], [])
    return ast.Assign([ast.Name(name.partition(".")[0], ast.Store())], call)
