"""Attention that divides its features among heads: where the heads are put before time, and where they are joined."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.static.context import Context
from drygrad.static.facts.frame import dotted_text
from drygrad.static.rules.loss.sizes_of_view import View
from drygrad.static.syntax import last_assignment, nodes_within
from drygrad.static.tree import walk

_STEPS = 5
_KEEPS_ORDER = frozenset({"contiguous", "float", "to", "type_as", "half", "bfloat16", "clone"})
_PARTS = frozenset({"unbind", "chunk", "split"})
_HEADS, _DIMS = 4, 3


def joins_heads_before_time(view: View, ctx: Context) -> bool:
    """Say whether a view takes (batch, heads, time, features) for (batch, time, all features).

    It is surely so where the product of attention is joined as it is, and its values were put in that order here: by a
    view of the same batch and time, with a transposition behind it.
    """
    sizes = [dotted_text(size) for size in view.sizes]
    if len(sizes) != _DIMS or None in sizes[:2]:
        return False
    product = _computed(view.receiver, ctx)
    values = _values_of(product) if product is not None else None
    return values is not None and any(_puts_heads_first(n, sizes[:2]) for n in _made_of(values, ctx))


def _computed(node: ast.expr, ctx: Context) -> ast.expr | None:
    """Return what computes an expression, behind names and what leaves the order of elements alone."""
    for _ in range(_STEPS):
        match node:
            case ast.Call(func=ast.Attribute(value=inner, attr=name)) if name in _KEEPS_ORDER:
                node = inner
            case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name), args=[inner, *_]) if "drop" in name:
                node = inner
            case ast.Name(id=name):
                assigned = last_assignment(ctx, name, ctx.statement(node))
                if assigned is None:
                    return None
                node = assigned
            case _:
                return node
    return None


def _values_of(product: ast.expr) -> ast.expr | None:
    """Return the values that attention weighs."""
    match product:
        case ast.BinOp(op=ast.MatMult(), right=values):
            return values
        case ast.Call(func=ast.Attribute(attr="matmul"), args=[*_, values]):
            return values
        case ast.Call(
            func=ast.Attribute(attr="scaled_dot_product_attention") | ast.Name(id="scaled_dot_product_attention"),
            args=[_, _, values, *_],
        ):
            return values
        case _:
            return None


def _made_of(values: ast.expr, ctx: Context) -> Iterator[ast.Call]:
    """Yield the calls that may have laid values out last: the one that makes them, or the list that they are from."""
    node: ast.expr | None = values
    for _ in range(_STEPS):
        match node:
            case ast.Name(id=name):
                node = _assigned(name, node, ctx)
            case ast.Subscript(value=inner):
                node = inner
            case ast.Call(func=ast.Attribute(value=inner, attr=attr)) if attr in _PARTS:
                node = inner
            case ast.Call(func=ast.Name(id="map"), args=[ast.Lambda(body=body), *_]):
                node = body
            case ast.GeneratorExp(elt=inner) | ast.ListComp(elt=inner):
                node = inner
            case ast.Call():
                yield node
                return
            case _:
                return


def _assigned(name: str, node: ast.expr, ctx: Context) -> ast.expr | None:
    """Return the only value that a name of a function gets; where several get a part of it, the whole."""
    function = ctx.function(node)
    found: list[ast.expr] = []
    inside = nodes_within(function) if function is not None else ()
    for statement in (n for n in inside if isinstance(n, ast.Assign)):
        for target in statement.targets:
            if any(isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store) for n in walk(target)):
                found.append(_part(target, statement.value, name))
    return found[0] if len(found) == 1 else None


def _part(target: ast.expr, value: ast.expr, name: str) -> ast.expr:
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        pairs = zip(target.elts, value.elts, strict=True)
        return next((part for each, part in pairs if isinstance(each, ast.Name) and each.id == name), value)
    return value


def _puts_heads_first(node: ast.Call, sizes: list[str | None]) -> bool:
    """Say whether a call exchanges time and heads of what was viewed as (batch, time, ..., heads, features)."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Call(func=ast.Attribute(attr=view), args=given), attr=how)):
            if view not in ("view", "reshape") or [dotted_text(size) for size in given[:2]] != sizes:
                return False
            order = [_number(argument) for argument in node.args]
            if how == "transpose":
                return len(given) == _DIMS + 1 and sorted(n % 4 for n in order if n is not None) == [1, 2]
            return how == "permute" and len(order) == len(given) > _DIMS and order[-2] == 1
        case _:
            return False


def _number(node: ast.expr) -> int | None:
    try:
        value = ast.literal_eval(node)
    except ValueError:
        return None
    return value if isinstance(value, int) else None
