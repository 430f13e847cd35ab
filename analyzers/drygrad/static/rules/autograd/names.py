"""Where names are bound and read within a function, by the text alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import cast

from drygrad.static.context import Context
from drygrad.static.tree import children, remembered, walk

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


def nodes_within(root: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes under a node in the order of the text, those of functions and classes inside left out."""
    return _nodes_within(root)


@remembered
def _nodes_within(root: ast.AST) -> Iterator[ast.AST]:
    waiting = list(reversed(children(root)))
    while waiting:
        node = waiting.pop()
        if not isinstance(node, _SCOPES):
            yield node
            waiting.extend(reversed(children(node)))


def bound_names(target: ast.AST) -> set[str]:
    """Return the names that a statement or target binds."""
    return {n.id for n in walk(target) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def last_assignment(ctx: Context, name: str, statement: ast.stmt) -> ast.expr | None:
    """Return the value that a name was last assigned before a statement, where only one can have been.

    Only plain assignments that surely ran before are taken: earlier in the same block or in one around it, or in a
    ``with`` block there.
    """
    place: ast.AST = statement
    while True:
        parent = ctx.parent(place)
        if parent is None:
            return None
        for before in reversed(_siblings_before(parent, place)):
            if name in bound_names(before):
                return _assigned(before, name)
        if isinstance(parent, (ast.Module, *_SCOPES)):
            return None
        if name in bound_names(parent) and isinstance(parent, (ast.For, ast.While, ast.AsyncFor, ast.Try)):
            return None
        place = parent


def _siblings_before(parent: ast.AST, place: ast.AST) -> list[ast.stmt]:
    for field in ("body", "orelse", "finalbody"):
        block: object = getattr(parent, field, None)
        if isinstance(block, list) and place in block:
            statements = cast("list[ast.stmt]", block)
            return statements[: statements.index(cast("ast.stmt", place))]
    return []


def _assigned(statement: ast.stmt, name: str) -> ast.expr | None:
    match statement:
        case ast.Assign(targets=[ast.Name(id=target)], value=value) if target == name:
            return value
        case ast.With(body=body):
            last = next((inner for inner in reversed(body) if name in bound_names(inner)), None)
            return _assigned(last, name) if last is not None else None
        case _:
            return None
