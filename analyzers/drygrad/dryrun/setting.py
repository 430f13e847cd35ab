"""Functions that set module globals: what one of them leaves behind, another one reads."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from drygrad.dryrun.names import FunctionNode, bound_names, free_names

Setters: TypeAlias = Mapping[str, frozenset[str]]
"""The functions of a file that set module globals, by name: those globals."""

_EMPTY_CALLS = frozenset(("dict", "list", "set", "defaultdict", "OrderedDict", "SimpleNamespace"))


def set_directly(statements: Iterable[ast.AST]) -> Setters:
    """Return which globals each function sets by itself."""
    found: dict[str, frozenset[str]] = {}
    for function in _functions(statements):
        found[function.name] = found.get(function.name, frozenset()) | frozenset(_set_by(function))
    return {name: names for name, names in found.items() if names}


def setters_of(statements: Sequence[ast.AST]) -> Setters:
    """Return which globals each function sets, by itself or by the functions that it calls."""
    known = dict(set_directly(statements))
    called = [(function.name, {*called_names(function)}) for function in _functions(statements)] if known else []
    grows = True
    while grows:
        grows = False
        for name, others in called:
            own = known.get(name, frozenset())
            every = own.union(*(known[other] for other in others if other in known))
            grows = grows or every != own
            known[name] = every
    return known


def _functions(statements: Iterable[ast.AST]) -> Iterator[FunctionNode]:
    for statement in statements:
        for node in ast.walk(statement):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield node


def called_names(node: ast.AST) -> Iterator[str]:
    """Yield the names of the functions that are called somewhere in a node."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Name):
            yield inner.func.id


def is_placeholder(value: ast.expr | None) -> bool:
    """Say whether a value is what stands for one that is yet to come: ``None``, something empty."""
    match value:
        case None | ast.Constant(value=None | ""):
            return True
        case ast.List(elts=[]) | ast.Dict(keys=[]) | ast.Tuple(elts=[]):
            return True
        case ast.Call(func=ast.Name(id=name), args=[], keywords=[]) if name in _EMPTY_CALLS:
            return True
        case _:
            return False


def _set_by(function: FunctionNode) -> Iterator[str]:
    """Yield the globals that a function assigns, and those of which it assigns an entry or an attribute."""
    declared = {name for node in ast.walk(function) if isinstance(node, ast.Global) for name in node.names}
    assigned = {name for statement in function.body for name in bound_names(statement)}
    yield from declared & assigned
    outside = free_names(function) - declared
    for node in ast.walk(function):
        match node:
            case ast.Attribute(value=ast.Name(id=name), ctx=ast.Store()) if name in outside:
                yield name
            case ast.Subscript(value=ast.Name(id=name), ctx=ast.Store()) if name in outside:
                yield name
            case _:
                pass
