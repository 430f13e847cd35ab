"""Loops that run a step each time: what an iteration calls, backpropagates and rebinds."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from drygrad.static.context import Context, FunctionNode, Loop
from drygrad.static.facts.frame import dotted_text
from drygrad.static.facts.values import Object, Tensor
from drygrad.static.syntax import body_nodes, called, calls_in, last_assignment

LOOPS = (ast.For, ast.AsyncFor, ast.While)
_BACKWARD = ("backward", "manual_backward")


@dataclass(frozen=True)
class Backward:
    """A backward call: what it is called on or given, and the names that surely carry the graph it runs through."""

    node: ast.Call
    roots: tuple[ast.expr, ...]
    names: frozenset[str]
    keeps_graph: bool


def repeats(loop: Loop) -> bool:
    """Say whether a loop may run a second turn."""
    if isinstance(loop.body[-1], (ast.Break, ast.Return, ast.Raise)):
        return False
    match loop:
        case ast.For(iter=ast.Call(func=ast.Name(id="range"), args=[ast.Constant(value=1)])):
            return False
        case _:
            return True


def is_guarded(node: ast.AST, loop: ast.AST, ctx: Context) -> bool:
    """Say whether a condition or an exception decides if an iteration (or a call of a function) reaches a node."""
    for ancestor in ctx.ancestors(node):
        if ancestor is loop:
            return False
        if isinstance(ancestor, (ast.If, ast.IfExp, ast.ExceptHandler, ast.match_case)):
            return True
    return False


def backwards_in(scope: ast.AST, ctx: Context) -> Iterator[Backward]:
    """Yield the backward calls in a body: of tensors, scaled losses, accelerators."""
    return (backward for call in calls_in(scope) if (backward := backward_of(call, ctx)) is not None)


def backward_of(call: ast.Call, ctx: Context) -> Backward | None:
    """Return the backward that a call is; None for other calls."""
    if called(call) not in _BACKWARD or not isinstance(call.func, ast.Attribute):
        return None
    receiver = call.func.value
    roots = (*(() if isinstance(receiver, ast.Name) and call.args else (receiver,)), *call.args[:1])
    if isinstance(ctx.value(receiver), Tensor) or _is_computed(receiver, ctx):
        roots = (receiver,)
    return _through(call, roots)


def gradients_in(scope: ast.AST, ctx: Context) -> Iterator[Backward]:
    """Yield the calls of ``torch.autograd.grad`` in a body, which run through a graph as a backward does."""
    for call in calls_in(scope):
        known = ctx.call(call) if called(call) == "grad" else None
        if known is not None and known.target == "torch.autograd.grad" and known.operands:
            given = known.operands[0]
            yield _through(call, tuple(given.elts) if isinstance(given, (ast.List, ast.Tuple)) else (given,))


def _through(call: ast.Call, roots: tuple[ast.expr, ...]) -> Backward:
    retain = [k.value for k in call.keywords if k.arg in ("retain_graph", "create_graph")]
    keeps = any(not (isinstance(value, ast.Constant) and not value.value) for value in retain)
    return Backward(call, roots, frozenset(name for root in roots for name in _carriers(root)), keeps)


def _is_computed(receiver: ast.expr, ctx: Context) -> bool:
    """Say whether a name stands for what a call made of tensors: a tensor, whose backward is given a gradient.

    A part of it, ``output[:, 0]``, is one, too.
    """
    while isinstance(receiver, ast.Subscript):
        receiver = receiver.value
    if not isinstance(receiver, ast.Name):
        return False
    made = last_assignment(ctx, receiver.id, ctx.statement(receiver))
    while isinstance(made, (ast.Subscript, ast.Attribute)):
        made = made.value
    match made:
        case ast.Call(args=given):
            return any(isinstance(ctx.value(argument), Tensor) for argument in given)
        case _:
            return False


def _carriers(node: ast.expr) -> Iterator[str]:
    """Yield the names of what surely has a graph, because a backward runs through this expression."""
    text = dotted_text(node)
    match node:
        case _ if text is not None:
            yield text
        case ast.BinOp(left=left, op=ast.Div()):
            yield from _carriers(left)
        case ast.BinOp(left=side, op=ast.Mult(), right=ast.Constant()):
            yield from _carriers(side)
        case ast.BinOp(left=ast.Constant(), op=ast.Mult(), right=side):
            yield from _carriers(side)
        case ast.Call(func=ast.Attribute(attr="scale"), args=[scaled, *_]):
            yield from _carriers(scaled)
        case ast.Call(func=ast.Attribute(value=owner, attr="mean" | "sum")):
            yield from _carriers(owner)
        case _:
            return


def is_step_loop(loop: Loop, ctx: Context) -> bool:
    """Say whether each iteration is one step: no loop is nested in it, and it backpropagates or takes a batch."""
    return ctx.noted(_is_step_loop, loop)


def _is_step_loop(loop: Loop, ctx: Context) -> bool:
    if any(isinstance(node, LOOPS) for node in body_nodes(loop)):
        return False
    return trains(loop) or iterates_over_loader(loop, ctx)


def step_around(node: ast.AST, ctx: Context) -> Loop | FunctionNode | None:
    """Return the loop or function that is one step and always reaches a node; None where there is none.

    A function is a step where it runs a backward outside of any loop and a loop of the file calls it.
    """
    loops = ctx.loops(node)
    if loops:
        return loops[0] if is_step_loop(loops[0], ctx) and not is_guarded(node, loops[0], ctx) else None
    function = ctx.function(node)
    if function is None or is_guarded(node, function, ctx) or not trains(function):
        return None
    if any(isinstance(inner, LOOPS) and trains(inner) for inner in body_nodes(function)):
        return None
    return function if any(ctx.loops(site.node) for site in ctx.callers(function)) else None


def trains(scope: ast.AST) -> bool:
    """Say whether a body runs a backward itself."""
    return any(called(call) in _BACKWARD for call in calls_in(scope))


def iterates_over_loader(loop: Loop, ctx: Context) -> bool:
    """Say whether a loop takes batches of a DataLoader: a known one, or one called so."""
    if isinstance(loop, ast.While):
        return False
    source = loop.iter
    while isinstance(source, ast.Call) and source.args:
        source = source.args[0]
    value = ctx.value(source)
    if isinstance(value, Object):
        return value.type == "torch.utils.data.DataLoader"
    return "loader" in (dotted_text(source) or "").lower()
