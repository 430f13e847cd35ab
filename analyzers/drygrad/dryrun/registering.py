"""Statements that make something known by being executed: decorators that register, stores of configurations."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Set

from drygrad.dryrun.names import late_names

_STORING = re.compile(r"store|register|register_(?!.*(?:hook|buffer|parameter|module)$)\w+")
_REGISTERING = re.compile(r"(?:^|[._])(?:register|registry|store|add)(?:$|[._])", re.IGNORECASE)


class Registries:
    """Which definitions of a file register others: functions used as decorators, and classes that know their own."""

    def __init__(self, statements: Iterable[ast.AST]) -> None:
        self._decorators: dict[str, set[str]] = {}
        self._families: set[str] = set()
        for statement in statements:
            if isinstance(statement, ast.FunctionDef):
                self._decorators[statement.name] = late_names(statement)
            elif isinstance(statement, ast.ClassDef) and _knows_its_own(statement):
                self._families.add(statement.name)

    def makes_known(self, step: object, needed: Set[str]) -> bool:
        """Say whether a step registers something where one of the needed names may look for it."""
        if isinstance(step, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            bases = step.bases if isinstance(step, ast.ClassDef) else []
            if any(isinstance(base, ast.Name) and base.id in self._families & needed for base in bases):
                return True
            return any(self._registers(decorator, needed) for decorator in step.decorator_list)
        match step:
            case ast.Expr(value=ast.Call(func=ast.Attribute(attr=name))):
                return _STORING.fullmatch(name) is not None
            case _:
                return False

    def _registers(self, decorator: ast.expr, needed: Set[str]) -> bool:
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        root = called
        while isinstance(root, ast.Attribute):
            root = root.value
        name = root.id if isinstance(root, ast.Name) else ""
        if name in self._decorators:
            return not self._decorators[name].isdisjoint(needed)
        return name in needed or _REGISTERING.search(ast.unparse(called)) is not None


def _knows_its_own(node: ast.ClassDef) -> bool:
    return any(isinstance(inner, ast.FunctionDef) and inner.name == "__init_subclass__" for inner in node.body)
