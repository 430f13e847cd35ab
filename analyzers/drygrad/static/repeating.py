"""What runs again and again: the loops around a node, in its own function or in those that call it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from drygrad.static.context import Context, FunctionNode, Loop
from drygrad.static.datasets import called_by
from drygrad.static.facts.frame import dotted_text
from drygrad.static.loops import is_guarded, is_step_loop, trains
from drygrad.static.syntax import assigned_in, bound_names

_DEPTH = 3
_OF_OBJECTS = frozenset({"__call__", "forward"})


class Turn(NamedTuple):
    """A loop, and the calls that lead from it to a node: the one in the node's function's caller first."""

    loop: Loop
    calls: tuple[ast.Call, ...] = ()


def turns_around(node: ast.AST, ctx: Context, depth: int = _DEPTH) -> Iterator[Turn]:
    """Yield the innermost loops that always reach a node."""
    loops, function = ctx.loops(node), ctx.function(node)
    if loops:
        if not is_guarded(node, loops[0], ctx):
            yield Turn(loops[0])
    elif function is not None and depth and not is_guarded(node, function, ctx):
        for site in ctx.callers(function):
            if isinstance(site.node, ast.Call):
                for turn in turns_around(site.node, ctx, depth - 1):
                    yield turn._replace(calls=(site.node, *turn.calls))


def repeated(text: str, node: ast.AST, ctx: Context) -> Turn | None:
    """Return the steps that reach a node, where a name stands for the same object in each of them."""
    for turn in turns_around(node, ctx):
        functions = [ctx.function(inner) for inner in (node, *turn.calls[:-1]) if turn.calls]
        is_step = is_step_loop(turn.loop, ctx) or any(trains(each) for each in functions if each is not None)
        if is_step and _is_same(text, node, turn, ctx):
            return turn
    return None


def _is_same(text: str, node: ast.AST, turn: Turn, ctx: Context) -> bool:
    """Say whether a name stands for one object in all passes of a loop, as far as the file shows."""
    name: str | None = text
    for call in turn.calls:
        function = ctx.function(node)
        if function is None or name is None or _is_bound(name, function):
            return False
        name = _outside(name, function, call, ctx)
        node = call
    if name is None or _is_bound(name, turn.loop):
        return False
    return not any(name in bound_names(outer.target) for outer in ctx.loops(node)[:1] if isinstance(outer, ast.For))


def _is_bound(name: str, scope: FunctionNode | Loop) -> bool:
    return any(name == bound or name.startswith(f"{bound}.") for bound, _ in assigned_in(scope))


def _outside(name: str, function: FunctionNode, call: ast.Call, ctx: Context) -> str | None:
    """Return what the caller of a function calls something; None where that is not one thing."""
    root, dot, rest = name.partition(".")
    if root == "self":
        return None if _changes(rest, ctx) else _joined(_receiver(function, call), dot, rest)
    none: list[str] = []
    names = next((names for known, names in called_by(call, ctx) if known is function), none)
    given = {**dict(zip(names, call.args, strict=False)), **{k.arg: k.value for k in call.keywords if k.arg}}
    if root in given:
        return _joined(given[root], dot, rest)
    return name if root in ctx.facts.globals and root not in names else None


def _receiver(function: FunctionNode, call: ast.Call) -> ast.expr | None:
    if isinstance(call.func, ast.Attribute) and call.func.attr == function.name:
        return call.func.value
    return call.func if function.name in _OF_OBJECTS else None


def _joined(owner: ast.expr | None, dot: str, rest: str) -> str | None:
    text = dotted_text(owner) if owner is not None else None
    return f"{text}{dot}{rest}" if text is not None else None


def _changes(attribute: str, ctx: Context) -> bool:
    """Say whether an attribute is assigned outside of constructors."""
    first = attribute.partition(".")[0]
    for node in ctx.nodes(ast.Attribute):
        if node.attr == first and not isinstance(node.ctx, ast.Load):
            function = ctx.function(node)
            if function is None or function.name != "__init__":
                return True
    return False
