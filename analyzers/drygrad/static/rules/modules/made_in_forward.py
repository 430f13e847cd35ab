"""Modules that a method makes and calls at once."""

from __future__ import annotations

import ast

from drygrad.static.context import Context
from drygrad.static.facts.values import Class, Object, Reference
from drygrad.static.tree import walk

_MOVES = frozenset({"to", "cuda", "cpu", "half", "float", "double", "bfloat16"})


def made_module(node: ast.Call, ctx: Context) -> Object | None:
    """Return the module that a call of its class makes; None for any other call."""
    made = ctx.value(node)
    if isinstance(made, Object) and made.node is node and isinstance(ctx.value(node.func), (Class, Reference)):
        return made if made.is_module else None
    return None


def moved(node: ast.expr, ctx: Context) -> ast.expr:
    """Return an expression with the ``.to(device)`` and the like that follow it."""
    parent = ctx.parent(node)
    outer = ctx.parent(parent) if parent is not None else None
    match parent, outer:
        case ast.Attribute(attr=name), ast.Call(func=function) if name in _MOVES and function is parent:
            return moved(outer, ctx)
        case _:
            return node


def local_name(node: ast.expr, ctx: Context) -> str | None:
    """Return the local name that alone is given a value; None where it goes elsewhere."""
    match ctx.parent(node):
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if value is node:
            return name
        case _:
            return None


def is_only_called(node: ast.expr, ctx: Context) -> bool:
    """Say whether all that happens to a module made here is that it is called, at once or by its local name."""
    match ctx.parent(node):
        case ast.Call(func=function) if function is node:
            return True
        case _:
            pass
    name, function = local_name(node, ctx), ctx.function(node)
    if name is None or function is None:
        return False
    uses = [n for n in walk(function) if isinstance(n, ast.Name) and n.id == name]
    stored = [n for n in uses if isinstance(n.ctx, ast.Store)]
    return len(stored) == 1 < len(uses) and all(n in stored or _is_called(n, ctx) for n in uses)


def _is_called(node: ast.Name, ctx: Context) -> bool:
    parent = ctx.parent(node)
    return isinstance(parent, ast.Call) and parent.func is node
