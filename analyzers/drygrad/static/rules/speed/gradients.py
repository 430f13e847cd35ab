"""Loops over the gradients of parameters, and the steps of training in which they run."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Edit, Fix
from drygrad.static.context import Context, Loop
from drygrad.static.editing import as_operand, inserted
from drygrad.static.loops import backwards_in, is_guarded
from drygrad.static.syntax import body_nodes, bound_names, calls_in, own_nodes, scope_of
from drygrad.static.tree import walk


def first_reading(loop: ast.For | ast.comprehension, ctx: Context) -> ast.Call | None:
    """Return the first call in a loop that reads what was computed of each gradient; None where none does."""
    targets = bound_names(loop.target)
    of_gradients = _is_of_gradients(loop.iter, ctx)
    for call in _calls_of(loop, ctx):
        read = _read_by(call)
        if read is None or _depends(call, loop, ctx):
            continue
        names = [n for n in walk(read) if isinstance(n, ast.Name) and n.id in targets]
        if any(of_gradients or _reads_gradient(name, ctx) for name in names):
            return call
    return None


def _calls_of(loop: ast.For | ast.comprehension, ctx: Context) -> Iterator[ast.Call]:
    """Yield the calls that each turn makes."""
    if isinstance(loop, ast.For):
        return calls_in(loop)
    whole = ctx.parent(loop)
    computed = (getattr(whole, name, None) for name in ("elt", "value"))
    return (node for node in own_nodes(*filter(None, computed)) if isinstance(node, ast.Call))


def _read_by(call: ast.Call) -> ast.expr | None:
    """Return what a call makes a number of."""
    match call:
        case ast.Call(func=ast.Attribute(value=read, attr="item"), args=[]):
            return read
        case ast.Call(func=ast.Name(id="float" | "int"), args=[ast.Call() as read]):
            return read
        case _:
            return None


def step_loops_around(node: ast.AST, ctx: Context) -> Iterator[tuple[Loop, ast.AST]]:
    """Yield the training loops in whose every step a loop runs, and where: in them, or in what they call."""
    function = ctx.function(node)
    places = [node, *([site.node for site in ctx.callers(function)] if function is not None else [])]
    for place in places:
        for loop in ctx.loops(place):
            if loop is not node and _backpropagates(loop, ctx) and not is_guarded(place, loop, ctx):
                yield loop, place


def _backpropagates(loop: Loop, ctx: Context) -> bool:
    """Say whether each turn of a loop runs a backward outside of the loops that stand in it."""
    return any(ctx.loops(backward.node)[:1] == [loop] for backward in backwards_in(loop, ctx))


def _depends(node: ast.AST, loop: ast.For | ast.comprehension, ctx: Context) -> bool:
    """Say whether a condition decides if a turn reaches a node, other than whether there is a gradient."""
    inner, whole = node, loop
    if isinstance(loop, ast.comprehension):
        whole = ctx.parent(loop)
        if not all(map(_asks_for_gradient, loop.ifs)):
            return True
    for ancestor in ctx.ancestors(node):
        if ancestor is whole:
            return False
        if isinstance(ancestor, ast.If) and inner in ancestor.body and _asks_for_gradient(ancestor.test):
            inner = ancestor
            continue
        if isinstance(ancestor, (ast.If, ast.IfExp, ast.ExceptHandler, ast.match_case)):
            return True
        inner = ancestor
    return False


def _asks_for_gradient(test: ast.expr) -> bool:
    match test:
        case ast.Compare(left=ast.Attribute(attr="grad"), ops=[ast.IsNot()], comparators=[ast.Constant(value=None)]):
            return True
        case ast.Attribute(attr="requires_grad"):
            return True
        case ast.BoolOp(op=ast.And(), values=values):
            return all(map(_asks_for_gradient, values))
        case _:
            return False


def _is_of_gradients(node: ast.expr, ctx: Context) -> bool:
    """Say whether an expression is a list of gradients: ``[p.grad for p in parameters]``, or a name of one."""
    match node:
        case ast.ListComp(elt=ast.Attribute(attr="grad")) | ast.GeneratorExp(elt=ast.Attribute(attr="grad")):
            return True
        case ast.Name(id=name):
            values = [
                n.value
                for n in body_nodes(scope_of(node, ctx))
                if isinstance(n, ast.Assign) and name in bound_names(n.targets[0])
            ]
            return len(values) == 1 and not isinstance(values[0], ast.Name) and _is_of_gradients(values[0], ctx)
        case _:
            return False


def _reads_gradient(name: ast.Name, ctx: Context) -> bool:
    owner = ctx.parent(name)
    return isinstance(owner, ast.Attribute) and owner.attr == "grad"


# -- the repair -------------------------------------------------------------------------------------------------


def read_once(loop: ast.For | ast.comprehension, reading: ast.Call, ctx: Context) -> Fix | None:
    """Add the tensors up, and make a number of the sum after the loop."""
    tensor = _read_by(reading)
    if tensor is None:
        return None
    edits = _summed(loop, reading, ctx) if isinstance(loop, ast.comprehension) else _added_up(loop, reading, ctx)
    plain = ctx.replace(reading, as_operand(ctx, tensor))
    return ctx.fix("Sum the tensors and read the result once", plain, *edits) if edits else None


def _added_up(loop: ast.For, reading: ast.Call, ctx: Context) -> list[Edit | None]:
    match ctx.statement(reading):
        case ast.AugAssign(target=ast.Name(id=total), op=ast.Add(), value=value):
            used = [n for n in walk(loop) if isinstance(n, ast.Name) and n.id == total]
        case _:
            return []
    alone = len(used) == 1 and _is_arithmetic(value, reading, ctx)
    return [inserted(ctx, loop, f"{total} = float({total})", after=True)] if alone else []


def _summed(loop: ast.comprehension, reading: ast.Call, ctx: Context) -> list[Edit | None]:
    whole = ctx.parent(loop)
    added = ctx.parent(whole) if isinstance(whole, (ast.GeneratorExp, ast.ListComp)) else None
    match added, whole:
        case ast.Call(func=ast.Name(id="sum"), args=[_]), ast.GeneratorExp(elt=value) | ast.ListComp(elt=value):
            if not _is_arithmetic(value, reading, ctx):
                return []
            return [ctx.insert_before(added, "float("), ctx.insert_after(added, ")")]
        case _:
            return []


def _is_arithmetic(value: ast.expr, reading: ast.Call, ctx: Context) -> bool:
    """Say whether a value is computed of a reading as it would be of the tensor."""
    around = [*ctx.ancestors(reading)]
    inside = around[: around.index(value) + 1] if value in around else []
    return value is reading or all(isinstance(node, (ast.BinOp, ast.UnaryOp)) for node in inside)
