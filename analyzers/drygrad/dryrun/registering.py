"""Statements that make something known by being executed: decorators, stores of configurations, torch's operators."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Set

from drygrad.dryrun.names import late_names

_STORING = re.compile(r"store|register|register_(?!.*(?:hook|buffer|parameter|module)$)\w+")
_OPERATORS = re.compile(
    r"(?:.*\b)?(?:library\.(?:define|impl|impl_abstract|fallthrough_kernel|custom_op|triton_op)"
    r"|custom_op|triton_op|load_library|load_inline|cpp_extension\.load)"
)
"""What torch offers to define operators, which are then called by the names that they were given: `torch.ops.a.b`."""
_OF_OPERATORS = frozenset(
    f"register_{what}" for what in ("autocast", "autograd", "fake", "kernel", "torch_dispatch", "vmap")
)
"""What `torch.library` offers to say more of an operator, as it is called where it was imported by name."""
_NAMED_SO = re.compile(r"torch\.ops\.(?!aten\b|prims\b|load_library\b|loaded_libraries\b)\w")
_REGISTERING = re.compile(r"(?:^|[._])(?:register|registry|store|add)(?:$|[._])", re.IGNORECASE)


class Registries:
    """Which definitions of a file register others: functions used as decorators, and classes that know their own."""

    def __init__(self, statements: Iterable[ast.AST]) -> None:
        self._decorators: dict[str, set[str]] = {}
        self._families: set[str] = set()
        self._libraries: set[str] = set()
        self._read: set[str] = set()
        self._uses_operators = False
        for statement in statements:
            self._look_at(statement)
            if isinstance(statement, ast.FunctionDef):
                self._decorators[statement.name] = late_names(statement)
            elif isinstance(statement, ast.ClassDef) and _knows_its_own(statement):
                self._families.add(statement.name)

    def _look_at(self, statement: ast.AST) -> None:
        """Take note of what the statement has to do with operators that are called by name."""
        self._read |= {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
        self._uses_operators = self._uses_operators or _NAMED_SO.search(ast.unparse(statement)) is not None
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=made)):
                if ast.unparse(made).endswith("Library"):
                    self._libraries.add(name)
            case _:
                pass

    def makes_known(self, step: object, needed: Set[str]) -> bool:
        """Say whether a step registers something where one of the needed names may look for it."""
        if isinstance(step, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            bases = step.bases if isinstance(step, ast.ClassDef) else []
            if any(isinstance(base, ast.Name) and base.id in self._families & needed for base in bases):
                return True
            return any(self._registers(decorator, needed) for decorator in step.decorator_list)
        if self._uses_operators and self._makes_operators(step):
            return True
        match step:
            case ast.Expr(value=ast.Call(func=ast.Attribute(attr=name))):
                return _STORING.fullmatch(name) is not None
            case ast.Expr(value=ast.Call(func=ast.Name(id=name))):
                return name in _OF_OPERATORS
            case _:
                return False

    def _makes_operators(self, step: object) -> bool:
        """Say whether a step may define one of the operators that the file calls by name.

        An import of which nothing is read is there for what the module does: it may load a library of operators.
        """
        if isinstance(step, (ast.Import, ast.ImportFrom)):
            return self._read.isdisjoint((alias.asname or alias.name).partition(".")[0] for alias in step.names)
        match step:
            case ast.Expr(value=ast.Call(func=called)):
                return self._defines(called)
            case _:
                return False

    def _defines(self, called: ast.expr) -> bool:
        match called:
            case ast.Attribute(value=ast.Name(id=name)) if name in self._libraries:
                return True
            case _:
                return _OPERATORS.fullmatch(ast.unparse(called)) is not None

    def _registers(self, decorator: ast.expr, needed: Set[str]) -> bool:
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        root = called
        while isinstance(root, ast.Attribute):
            root = root.value
        name = root.id if isinstance(root, ast.Name) else ""
        if self._uses_operators and self._defines(called):
            return True
        if name in self._decorators and isinstance(called, ast.Name):  # not an attribute: `@operator.register_fake`
            return not self._decorators[name].isdisjoint(needed)
        return name in needed or _REGISTERING.search(ast.unparse(called)) is not None


def _knows_its_own(node: ast.ClassDef) -> bool:
    return any(isinstance(inner, ast.FunctionDef) and inner.name == "__init_subclass__" for inner in node.body)
