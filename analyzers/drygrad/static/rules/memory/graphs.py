"""Graphs that outlive the step that made them: who carries one, and whether a backward may still need it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Literal, NamedTuple

from drygrad.model import Fix
from drygrad.static.context import Context, FunctionNode, Loop
from drygrad.static.datasets import called_by
from drygrad.static.facts.frame import dotted_text
from drygrad.static.facts.operations import VIEWS
from drygrad.static.facts.saving import keeps_tensors
from drygrad.static.facts.values import Constant, Mapped, Number, Origin, Sequence, Tensor, Value
from drygrad.static.loops import Backward, backwards_in, gradients_in, trains
from drygrad.static.roles import role_of
from drygrad.static.rules.autograd.graph import recorded
from drygrad.static.rules.autograd.terms import differentiated
from drygrad.static.rules.memory.reading import COMBINES, is_only_read
from drygrad.static.syntax import (
    assigned_in,
    body_nodes,
    bound_names,
    called,
    calls_in,
    class_around,
    last_assignment,
    rebound_between,
)
from drygrad.static.tree import walk

Step = Loop | FunctionNode | ast.ListComp | ast.GeneratorExp
"""What runs again and again: a loop, a function that a loop calls, a comprehension."""
_CONVERSIONS = frozenset({"to", "cpu", "cuda", "float", "half", "double", "bfloat16", "type"}) | VIEWS
_ASSIGNS = (ast.Assign, ast.AugAssign)
_DEPTH = 6


class Graph(NamedTuple):
    """What graph a value carries where a step stores it.

    ``state`` is ``freed`` where a backward has freed what the graph had saved (its nodes stay), ``whole`` where none
    has run through it, ``own`` where it goes on from a freed graph by operations that save tensors of their own.
    ``certain`` is False where names, or the roles of what is called, are all that tells of a graph.
    """

    state: Literal["freed", "own", "whole"]
    certain: bool = True


def graph_of(node: ast.expr, step: Step, ctx: Context, depth: int = _DEPTH) -> Graph | None:
    """Say what graph a value carries where a step stores it; None: none that the step made, or nobody knows."""
    value = ctx.value(node)
    if isinstance(value, (Number, Constant)):
        return None
    if isinstance(value, Tensor) and (value.requires_grad is False or value.leaf or value.parameter):
        return None
    if isinstance(value, Tensor) and (value.made_by("autograd_grad") or _is_converted(value)):
        return None  # a gradient has a graph only where create_graph asked for it, and a conversion saves nothing
    if not isinstance(node, (ast.Name, ast.Attribute)) and recorded(ctx, node) is False:
        return None
    if isinstance(value, (Mapped, Sequence)):
        return _of_record(node, value, step, ctx)
    ways = (*backwards_in(step, ctx), *gradients_in(step, ctx))
    roots = [backward for backward in ways if not backward.keeps_graph]
    if _is_part_of(node, roots, step, ctx):
        return Graph("freed")
    found = [graph for graph in _graphs_below(node, step, ctx, depth) if graph is not None]
    if found:
        state = "whole" if any(graph.state == "whole" for graph in found) else found[0].state
        saves = state == "freed" and isinstance(value, Tensor) and value.requires_grad and _saves(node, ctx)
        return Graph("own" if saves else state, all(graph.certain for graph in found))
    if not _is_made_in(node, step, ctx):
        return None
    if any(_is_freed_elsewhere(call, node, ctx) for call in calls_in(step)):
        return Graph("freed")
    if isinstance(value, Tensor) and value.requires_grad:
        return Graph("freed" if any(_made_from(value, ctx.value(r)) for b in roots for r in b.roots) else "whole")
    return Graph("whole", certain=False) if isinstance(node, ast.Call) and _is_of_model(node, ctx) else None


def _of_record(node: ast.expr, value: Value, step: Step, ctx: Context) -> Graph | None:
    """Say what graphs the tensors in a record or a tuple carry, wherever it was made."""
    if not _is_made_in(node, step, ctx):
        return None
    carried = [part for part in _tensors_in(value) if part.requires_grad and not (part.leaf or part.parameter)]
    carried = [part for part in carried if not (part.made_by("autograd_grad") or _is_converted(part))]
    roots = [root for _, root in differentiated(ctx)]
    is_freed = any(_made_from(root, part) or _made_from(part, root) for root in roots for part in carried)
    return Graph("freed" if is_freed else "whole") if carried else None


def _tensors_in(value: Value) -> Iterator[Tensor]:
    match value:
        case Tensor():
            yield value
        case Mapped(entries=entries):
            for entry in entries.values():
                yield from _tensors_in(entry)
        case Sequence(items=items, element=element):
            for item in items if items is not None else (element,):
                yield from _tensors_in(item)
        case _:
            return


def _is_converted(value: Tensor) -> bool:
    """Say whether a value is a leaf that was only moved, cast or viewed: its graph holds no tensor of the step."""
    while value.origin is not None and not (value.leaf or value.parameter):
        operands = [operand for operand in value.origin.operands if isinstance(operand, Tensor)]
        if len(operands) != 1 or value.origin.operation not in _CONVERSIONS:
            return False
        (value,) = operands
    return bool(value.leaf or value.parameter)


def _is_part_of(node: ast.expr, backwards: list[Backward], step: Step, ctx: Context) -> bool:
    """Say whether a backward of the step goes through the graph that a value is the end, or a part, of."""
    text, value = dotted_text(node), ctx.value(node)
    for backward in backwards:
        if text in backward.names and not rebound_between(text or "", backward.node, node, step):
            return True
        if any(_made_from(ctx.value(root), value) for root in backward.roots):
            return True
    return False


def _graphs_below(node: ast.expr, step: Step, ctx: Context, depth: int) -> Iterator[Graph | None]:
    """Yield the graphs of what a value was computed from, in as far as operations of torch lie between."""
    if depth == 0:
        return
    if isinstance(node, ast.Name):
        assigned = last_assignment(ctx, node.id, ctx.statement(node))
        if assigned is not None and assigned is not node and _stands_in(assigned, step, ctx):
            yield graph_of(assigned, step, ctx, depth - 1)
        return
    for operand in _operands(node, ctx):
        yield graph_of(operand, step, ctx, depth - 1)


def _operands(node: ast.expr, ctx: Context) -> tuple[ast.expr, ...]:
    match node:
        case ast.BinOp(left=left, right=right):
            return left, right
        case ast.UnaryOp(operand=operand) | ast.Subscript(value=operand):
            return (operand,)
        case ast.IfExp(body=body, orelse=orelse):
            return body, orelse
        case ast.Call():
            call = ctx.call(node)
            if call is not None:
                return call.operands if call.form in ("method", "function") else ()
            of_tensor = isinstance(node.func, ast.Attribute) and node.func.attr in COMBINES
            return (node.func.value,) if of_tensor and isinstance(node.func, ast.Attribute) else ()
        case _:
            return ()


def _saves(node: ast.expr, ctx: Context) -> bool:
    """Say whether an operation saves a tensor of its own, on the way from what has been freed."""
    value = ctx.value(node)
    origin = value.origin if isinstance(value, Tensor) else None
    if origin is not None and origin.node is node and keeps_tensors(origin) and not _is_scaled(node, ctx):
        return True
    return any(_saves(operand, ctx) for operand in _operands(node, ctx))


def _is_scaled(node: ast.expr, ctx: Context) -> bool:
    """Say whether a number is the factor: what is kept of that has no dimensions."""
    if not isinstance(node, ast.BinOp) or isinstance(node.op, ast.Pow):
        return False
    return any(isinstance(ctx.value(side), (Number, Constant)) for side in (node.left, node.right))


def _made_from(value: Value, part: Value) -> bool:
    """Say whether a tensor was computed from another one that requires grad."""
    if not isinstance(part, Tensor) or not part.requires_grad or part.origin is None:
        return False
    return any(origin == part.origin for origin in _ancestry(value, set()))


def _ancestry(value: Value, seen: set[int]) -> Iterator[Origin]:
    if isinstance(value, Tensor) and value.origin is not None and id(value.origin) not in seen:
        seen.add(id(value.origin))
        yield value.origin
        for operand in value.origin.operands:
            yield from _ancestry(operand, seen)


# -- what is made, and freed, within a step ---------------------------------------------------------------------


def _stands_in(node: ast.AST, step: Step, ctx: Context) -> bool:
    return node is step or any(ancestor is step for ancestor in ctx.ancestors(node))


def _is_made_in(node: ast.expr, step: Step, ctx: Context, seen: frozenset[str] = frozenset()) -> bool:
    """Say whether a step computes a value itself, and not only from items of what is held anyway."""
    match node:
        case ast.Name() | ast.Attribute():
            text = dotted_text(node)
            given = [at.value for name, at in assigned_in(step) if name == text and isinstance(at, _ASSIGNS)]
            return text not in seen and any(_is_made_in(v, step, ctx, seen | {text or ""}) for v in given)
        case ast.Subscript(value=operand) | ast.UnaryOp(operand=operand):
            return _is_made_in(operand, step, ctx, seen)
        case ast.BinOp(left=left, right=right):
            return _is_made_in(left, step, ctx, seen) or _is_made_in(right, step, ctx, seen)
        case _:
            return isinstance(node, (ast.Call, ast.IfExp))


def _is_freed_elsewhere(call: ast.Call, node: ast.expr, ctx: Context) -> bool:
    """Say whether a call runs a backward in a function of the file and is given a value, or returns it."""
    if not any(trains(function) for function, _ in called_by(call, ctx)):
        return False
    text, value = dotted_text(node), ctx.value(node)
    if text is None:
        return False
    returned = isinstance(statement := ctx.statement(call), ast.Assign) and text in bound_names(statement)
    has_graph = isinstance(value, Tensor) and value.requires_grad is True
    return (returned and has_graph) or any(dotted_text(argument) == text for argument in call.args)


def _is_of_model(call: ast.Call, ctx: Context) -> bool:
    """Say whether a call, or what it is given, is a model's: by what is done with it, then by its name."""
    if is_model(call.func, ctx):
        return True
    if role_of(ctx, call.func) != "loss":
        return False
    given = call.args[0] if call.args else None
    if isinstance(given, ast.Name):
        given = last_assignment(ctx, given.id, ctx.statement(call))
    return isinstance(given, ast.Call) and is_model(given.func, ctx)


def is_model(node: ast.expr, ctx: Context) -> bool:
    """Say whether an unknown thing is a module with parameters: it is asked for them, or switched between modes."""
    text = dotted_text(node)
    if text is None or role_of(ctx, node) not in ("model", None):
        return False
    scope = ctx.function(node) or ctx.tree
    asked = (c.func for c in calls_in(scope) if called(c) in _OF_MODULES and isinstance(c.func, ast.Attribute))
    return any(dotted_text(function.value) == text for function in asked) or role_of(ctx, node) == "model"


_OF_MODULES = frozenset({"parameters", "named_parameters", "train", "eval", "zero_grad", "requires_grad_"})


# -- how long it is kept ----------------------------------------------------------------------------------------


def repeated_around(node: ast.AST, name: str, ctx: Context) -> Step | None:
    """Return what runs a statement again and again while a name lives on: a loop, or one step of a loop elsewhere."""
    loops = ctx.loops(node)
    if loops:
        return loops[0]
    function = ctx.function(node)
    if function is None or ("." not in name and any(bound == name for bound, _ in assigned_in(function))):
        return None
    lives_on = name.startswith("self.") or name in ctx.facts.globals
    return function if lives_on and _is_called_in_loop(function, ctx) else None


def _is_called_in_loop(function: FunctionNode, ctx: Context, depth: int = 2) -> bool:
    for site in ctx.callers(function):
        if ctx.loops(site.node):
            return True
        outer = ctx.function(site.node)
        if depth and outer is not None and _is_called_in_loop(outer, ctx, depth - 1):
            return True
    return False


def renewals(name: str, statement: ast.stmt, step: Step, ctx: Context) -> Iterator[ast.AST]:
    """Yield what begins anew, or shortens, what a name keeps, within a step."""
    for bound, place in assigned_in(step):
        if bound == name and place is not statement and not isinstance(place, ast.AugAssign):
            yield place
    for node in body_nodes(step):
        match node:
            case ast.Call(func=ast.Attribute(value=owner, attr=method)) if method in _SHORTENS:
                if dotted_text(owner) == name:
                    yield node
            case ast.Delete(targets=[ast.Subscript(value=owner), *_]) if dotted_text(owner) == name:
                yield node
            case ast.Assign(targets=[ast.Subscript(value=owner, slice=ast.Slice())]) if dotted_text(owner) == name:
                yield node
            case _:
                pass


_SHORTENS = frozenset({"clear", "pop", "popleft", "popitem", "remove", "zero_", "fill_", "detach_"})


def is_needed_by_none(node: ast.expr, name: str, step: Step, ctx: Context) -> bool:
    """Say whether neither what keeps a value nor the names that it has in its step can reach a backward."""
    if not is_only_read(name, node, ctx) or _is_inner(name, node, ctx):
        return False
    names = (n for n in walk(node) if isinstance(n, ast.Name) and _is_made_in(n, step, ctx))
    whole = {n.id for n in names if (graph := graph_of(n, step, ctx)) is not None and graph.state == "whole"}
    return all(is_only_read(each, node, ctx, within=step) for each in whole if each != name)


def _is_inner(name: str, node: ast.expr, ctx: Context) -> bool:
    """Say whether a name is local to a module's method: what it gathers there belongs to one forward."""
    cls = class_around(node, ctx)
    return cls is not None and ctx.is_module_class(cls) and "." not in name and name not in ctx.facts.globals


def detached(node: ast.expr, ctx: Context) -> Fix | None:
    """Make the fix that takes a tensor out of its graph where it is stored."""
    title = "Detach it before storing it"
    if isinstance(ctx.value(node), (Mapped, Sequence)):
        return None
    if isinstance(node, (ast.Name, ast.Attribute, ast.Call, ast.Subscript)):
        return ctx.fix(title, ctx.insert_after(node, ".detach()"), safety="safe")
    return ctx.fix(title, ctx.insert_before(node, "("), ctx.insert_after(node, ").detach()"), safety="safe")
