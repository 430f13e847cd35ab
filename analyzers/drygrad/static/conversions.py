"""Conversions of values where they stand: never of what is written in place, for then only a copy would change."""

from __future__ import annotations

import ast

from drygrad.model import Edit
from drygrad.static.context import Context
from drygrad.static.editing import as_operand
from drygrad.static.facts.operations import VIEWS
from drygrad.static.syntax import body_nodes, scope_of

_STAYS = frozenset({"data", "T", "mT", "H", "mH", "real", "imag", "grad", "item"}) | VIEWS
"""Attributes and methods through which a write reaches the tensor that they are read of."""


def converted(ctx: Context, node: ast.expr, call: str) -> Edit | None:
    """Put ``.call`` behind an expression; None where something that others hold would no longer be written."""
    lost = is_written(ctx, node) or (_is_written_by_name(ctx, node) and not is_new(ctx, node))
    return None if lost else ctx.replace(node, f"{as_operand(ctx, node)}.{call}")


def is_written(ctx: Context, node: ast.expr) -> bool:
    """Say whether a write in place goes to what an expression is, or to a view of it."""
    inner, outer = node, ctx.parent(node)
    while outer is not None:
        match outer:
            case ast.Attribute(value=value, attr=attr, ctx=access) if value is inner:
                if not isinstance(access, ast.Load):
                    return True
                call = ctx.parent(outer)
                called = isinstance(call, ast.Call) and call.func is outer
                if called and writes_in_place(attr):
                    return True
                if attr not in _STAYS:
                    return False
                inner = call if called and isinstance(call, ast.Call) else outer
            case ast.Subscript(value=value, ctx=access) if value is inner:
                if not isinstance(access, ast.Load):
                    return True
                inner = outer
            case ast.AugAssign(target=target):
                return target is inner
            case ast.keyword(arg="out"):
                return True
            case ast.Call(args=[first, *_]) if first is inner:
                return _writes_to_its_first(ctx, outer)
            case _:
                return False
        outer = ctx.parent(inner)
    return False


def writes_in_place(name: str) -> bool:
    """Say whether a method is one of those of torch that change their tensor, by its name."""
    return name.endswith("_") and not name.startswith("_") and name not in ("requires_grad_", "detach_")


def is_new(ctx: Context, node: ast.expr) -> bool:
    """Say whether an expression makes a tensor of its own, which nothing else holds yet."""
    call = ctx.call(node) if isinstance(node, ast.Call) else None
    made = call is not None and call.operation not in VIEWS and not call.target.endswith("_")
    return made or isinstance(node, (ast.BinOp, ast.UnaryOp))


def is_written_as(ctx: Context, name: str, scope: ast.AST, since: int = 0) -> bool:
    """Say whether the body of a function, or the module's, writes in place to what a name stands for from a line on."""
    loads = (n for n in body_nodes(scope) if isinstance(n, ast.Name) and n.id == name and n.lineno >= since)
    return any(is_written(ctx, load) for load in loads)


def _is_written_by_name(ctx: Context, node: ast.expr) -> bool:
    """Say whether an expression gets a name through which it is written in place."""
    statement = ctx.parent(node)
    targets = statement.targets if isinstance(statement, ast.Assign) and statement.value is node else []
    names = [target.id for target in targets if isinstance(target, ast.Name)]
    return any(is_written_as(ctx, name, scope_of(node, ctx)) for name in names)


def _writes_to_its_first(ctx: Context, call: ast.Call) -> bool:
    name = ctx.name(call.func) or ""
    in_place = any(k.arg == "inplace" and not _is_false(k.value) for k in call.keywords)
    return in_place or writes_in_place(name.rpartition(".")[2]) or name.startswith("torch.distributed.")


def _is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and not node.value
