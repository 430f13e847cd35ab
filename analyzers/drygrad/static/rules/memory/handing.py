"""Tensors that are handed to a method which adds them to what its object keeps, or keeps them beside it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from drygrad.static.context import Context, FunctionNode
from drygrad.static.datasets import called_by
from drygrad.static.loops import is_guarded
from drygrad.static.syntax import assigned_in, nodes_within
from drygrad.static.tree import walk

_CUTS = frozenset({"item", "detach", "tolist", "numpy", "data", "shape", "size", "dim", "device", "dtype"})
_OF_OBJECTS = ("forward", "__call__")
"""The methods that a call of an object runs."""
_CONVERTS = frozenset({"float", "int", "bool", "str", "len", "isinstance", "print", "repr"})


class Handed(NamedTuple):
    """An argument, the attribute that the method adds it to, and the statement; ``listed`` where it is appended."""

    argument: ast.expr
    attribute: str
    statement: ast.stmt
    listed: bool


class _Addition(NamedTuple):
    """A value that a statement adds or appends to an attribute of ``self``."""

    attribute: str
    value: ast.expr
    statement: ast.stmt
    listed: bool


def handed_over(call: ast.Call, ctx: Context) -> Iterator[Handed]:
    """Yield the arguments of a method call that the method keeps as they are."""
    if not isinstance(call.func, ast.Attribute):
        return
    keepers = ctx.derived(_keepers)
    if not keepers & {call.func.attr, *_OF_OBJECTS}:
        return
    for function, names in called_by(call, ctx):
        given = [*zip(names, call.args, strict=False), *((k.arg or "", k.value) for k in call.keywords)]
        bound = {name for name, _ in assigned_in(function)}
        for name, argument in given:
            if name and name not in bound and not isinstance(argument, (ast.Constant, ast.Starred)):
                for attribute, statement, listed in _kept(function, name, ctx):
                    yield Handed(argument, attribute, statement, listed)


def _kept(function: FunctionNode, name: str, ctx: Context) -> Iterator[tuple[str, ast.stmt, bool]]:
    for node in nodes_within(function):
        kept = _addition(node)
        if kept is not None and _carries(kept.value, name, ctx) and not is_guarded(node, function, ctx):
            yield kept.attribute, kept.statement, kept.listed


def _addition(node: ast.AST) -> _Addition | None:
    """Return what a statement adds or appends to an attribute of ``self``."""
    match node:
        case ast.AugAssign(target=ast.Attribute(value=ast.Name(id="self"), attr=attribute), op=ast.Add(), value=value):
            return _Addition(attribute, value, node, False)
        case ast.Expr(
            value=ast.Call(
                func=ast.Attribute(value=ast.Attribute(value=ast.Name(id="self"), attr=attribute), attr="append"),
                args=[value],
            )
        ):
            return _Addition(attribute, value, node, True)
        case _:
            return None


def _keepers(ctx: Context) -> frozenset[str]:
    """Return the names of the file's functions that add to an attribute of ``self``, constructors aside."""
    statements = (node for kind in (ast.AugAssign, ast.Expr) for node in ctx.nodes(kind) if _addition(node) is not None)
    functions = filter(None, map(ctx.function, statements))
    return frozenset(function.name for function in functions) - {"__init__"}


def _carries(value: ast.expr, name: str, ctx: Context) -> bool:
    """Say whether an expression reads a parameter together with its graph."""
    return any(isinstance(n, ast.Name) and n.id == name and not _is_cut(n, value, ctx) for n in walk(value))


def _is_cut(node: ast.AST, until: ast.AST, ctx: Context) -> bool:
    while node is not until:
        parent = ctx.parent(node)
        if parent is None:
            return False
        if isinstance(parent, ast.Attribute) and parent.attr in _CUTS:
            return True
        if isinstance(parent, ast.Call) and isinstance(parent.func, ast.Name) and parent.func.id in _CONVERTS:
            return True
        node = parent
    return False
