"""Why a value has no graph: the mode it was computed under, the operation or the copy that left it.

Where values are known, the facts tell. Where they are not, because what is called is not, the text is followed: what
an operation of torch makes while gradients are off has no graph, whatever it was given.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

from drygrad.static.context import Context
from drygrad.static.facts.recording import cuts_graph
from drygrad.static.facts.values import (
    UNKNOWN,
    Class,
    Constant,
    Dtype,
    Function,
    Method,
    Number,
    Reference,
    Tensor,
    TorchCall,
    Value,
)
from drygrad.static.loops import backward_of
from drygrad.static.roles import role_of
from drygrad.static.rules.autograd.graph import COPIES, ancestors, recorded
from drygrad.static.rules.autograd.reaching import reach_of
from drygrad.static.rules.memory.reading import COMBINES
from drygrad.static.syntax import last_assignment, nodes_within, scope_of
from drygrad.static.tree import walk

_DEPTH = 12
_ASKS = frozenset({"requires_grad", "requires_grad_"})
_NUMBERS = frozenset({"item", "tolist", "numpy"})
_MAKES_NUMBERS = frozenset({"builtins.float", "builtins.int"})
_FROM_NUMBERS = COPIES | {"from_numpy"}
_KINDS: dict[str, Kind] = {"mode": "mode", "copy": "copy"}
"""What is not of these kinds is an operation: what is made of numbers is a tensor again."""
_LOSS = re.compile(r"loss|criterion", re.IGNORECASE)
_TARGET = re.compile(r"target|label|truth|^y|^gt", re.IGNORECASE)
"""What is called so has no graph, where nothing tells."""


Kind = Literal["mode", "operation", "number", "copy"]


class Cut(NamedTuple):
    """Where a value lost its graph, and how; ``certain`` is False where what an unknown call does is assumed."""

    at: ast.expr
    kind: Kind
    certain: bool = True


def roots_of(call: ast.Call, ctx: Context) -> Iterator[ast.expr]:
    """Yield what a backward goes through: its receiver, or what an accelerator is given; scaled losses unscaled."""
    backward = backward_of(call, ctx)
    for root in backward.roots if backward is not None else ():
        match root:
            case ast.Call(func=ast.Attribute(attr="scale"), args=[scaled, *_]):
                yield scaled
            case _:
                yield root


def cut_of(node: ast.expr, ctx: Context, depth: int = _DEPTH) -> Cut | None:
    """Say why a value has no graph; None where it has one, or nobody knows."""
    value = ctx.value(node)
    match value:
        case Number(cut=ast.expr() as at):
            return Cut(at, "number")
        case Tensor(requires_grad=True):
            return None
        case Tensor(requires_grad=False):
            known = _of_tensor(value, ctx)
            if known is not None:
                return known
        case _:
            pass
    found = _of_expression(node, ctx, depth) if depth else None
    return found or (_of_all_ways(value, node, ctx) if depth == _DEPTH else None)


def _of_all_ways(value: Value, node: ast.expr, ctx: Context) -> Cut | None:
    """Return the end of a graph that every layer behind a value lies past."""
    reach = reach_of(ctx, [(value, node)])
    ends = [] if isinstance(value, Tensor) and value.requires_grad else reach.ends
    return Cut(ends[0].at, _KINDS.get(ends[0].kind, "operation")) if ends else None


def _of_tensor(tensor: Tensor, ctx: Context) -> Cut | None:
    for each in ancestors(tensor):
        if each.origin is not None and each.origin.operands and recorded(ctx, each.origin.node) is False:
            return Cut(each.origin.node, "mode")
    if tensor.cut is None or not recorded(ctx, tensor.cut):
        return None
    maker = ctx.tensor(tensor.cut)
    return Cut(tensor.cut, "copy" if maker is not None and maker.made_by(*COPIES) else "operation")


def _of_expression(node: ast.expr, ctx: Context, depth: int) -> Cut | None:
    match node:
        case ast.Name(id=name):
            return _of_name(node, name, ctx, depth)
        case ast.BinOp(left=left, right=right):
            return _of_all((left, right), ctx, depth)
        case ast.UnaryOp(operand=operand):
            return cut_of(operand, ctx, depth - 1)
        case ast.Attribute(value=owner, attr="data"):
            return Cut(node, "operation", certain=False) if _is_computed(owner, ctx) else None
        case ast.Attribute(value=owner) | ast.Subscript(value=owner):
            return _if_mode(cut_of(owner, ctx, depth - 1))
        case ast.Call():
            call = ctx.call(node)
            return _of_call(node, call, ctx, depth) if call is not None else _of_unknown(node, ctx, depth)
        case _:
            return None


def _of_name(node: ast.Name, name: str, ctx: Context, depth: int) -> Cut | None:
    statement = ctx.statement(node)
    if _is_asked_for_gradients(name, node, ctx):
        return None
    before = last_assignment(ctx, name, statement)
    if before is None:
        unpacked = last_assignment(ctx, name, statement, whole=True)
        return _if_mode(cut_of(unpacked, ctx, depth - 1)) if unpacked is not None else None
    return cut_of(before, ctx, depth - 1) if before is not node else None


def _is_asked_for_gradients(name: str, node: ast.Name, ctx: Context) -> bool:
    """Say whether the function makes a leaf of a name that asks for gradients, somewhere."""
    asks = (n for n in nodes_within(scope_of(node, ctx)) if isinstance(n, ast.Attribute))
    return any(n.attr in _ASKS and isinstance(n.value, ast.Name) and n.value.id == name for n in asks)


def _if_mode(cut: Cut | None) -> Cut | None:
    """Take a part of what has no graph to have none, where that is for the mode."""
    return cut if cut is not None and cut.kind == "mode" else None


def _of_call(node: ast.Call, call: TorchCall, ctx: Context, depth: int) -> Cut | None:
    """Judge an operation of torch: off mode, or what has no derivative, makes what has no graph."""
    if call.operation in _ASKS or "requires_grad" in call.keywords:
        return None
    if recorded(ctx, node) is False:
        return Cut(node, "mode")
    if call.operation in _NUMBERS:
        return Cut(node, "number", certain=call.receiver_known) if _is_computed(call.operands[0], ctx) else None
    if call.operation == "detach" or cuts_graph(call.operation, call.values, call):
        return Cut(node, "operation") if _is_computed(call.operands[0], ctx) else None
    if call.operation in _FROM_NUMBERS:
        return Cut(node, "copy", certain=False) if node.args and _reads_computed(node, ctx) else None
    return _of_all(call.operands, ctx, depth) if call.form in ("method", "function") else None


def _of_all(operands: tuple[ast.expr, ...], ctx: Context, depth: int) -> Cut | None:
    """Return why the result of an operation on several has no graph: none of them has one, for one of the reasons."""
    cuts: list[Cut] = []
    assumed = False
    for operand in operands:
        cut = cut_of(operand, ctx, depth - 1)
        if cut is not None:
            cuts.append(cut)
        elif not _has_none(ctx.value(operand)):
            if not _is_called_target(operand):
                return None
            assumed = True
    if not cuts or (assumed and cuts[0].kind != "mode"):
        return None
    return cuts[0]._replace(certain=False) if assumed else cuts[0]


def _is_called_target(node: ast.expr) -> bool:
    names = [n.id for n in walk(node) if isinstance(n, ast.Name)]
    return len(names) == 1 and _TARGET.search(names[0]) is not None


def _has_none(value: Value) -> bool:
    return isinstance(value, (Number, Constant)) or (isinstance(value, Tensor) and value.requires_grad is False)


def _of_unknown(node: ast.Call, ctx: Context, depth: int) -> Cut | None:
    """Judge a call of something unknown: what an object computes while gradients are off has no graph, it seems."""
    function = ctx.value(node.func)
    name = ctx.name(node.func)
    if name in _MAKES_NUMBERS and len(node.args) == 1:
        return Cut(node, "number") if _is_computed(node.args[0], ctx) else None
    if isinstance(function, Method) and isinstance(node.func, ast.Attribute):
        return _of_method(node, node.func, ctx, depth)
    if isinstance(function, Dtype) or name == "torch.Tensor":
        return Cut(node, "copy", certain=False) if _reads_computed(node, ctx) else None
    if isinstance(function, (Reference, Class)) or not (node.args or node.keywords):
        return None
    if recorded(ctx, node) is False:
        called = isinstance(node.func, ast.Name) or role_of(ctx, node.func) in ("model", "loss")
        switches = isinstance(function, Function) and _records_again(function.node)
        return Cut(node, "mode", certain=False) if called and not switches else None
    named = role_of(ctx, node.func) == "loss" or _LOSS.search(ctx.text(node.func) or "")
    if function is not UNKNOWN or not named:
        return None
    outputs = _if_mode(_of_all(tuple(node.args), ctx, depth))
    return outputs._replace(certain=False) if outputs is not None else None


def _of_method(node: ast.Call, function: ast.Attribute, ctx: Context, depth: int) -> Cut | None:
    """Judge a method of something unknown: ``loss.item()`` is a number, ``errors.mean()`` what the errors are."""
    if function.attr == "item" and not node.args:
        return Cut(node, "number") if _is_computed(function.value, ctx) else None
    ours = {role_of(ctx, function), role_of(ctx, function.value)} & {"model", "loss"}
    if ours and node.args and recorded(ctx, node) is False:
        return Cut(node, "mode", certain=False)
    inner = cut_of(function.value, ctx, depth - 1) if function.attr in COMBINES else None
    return inner if inner is not None and inner.kind in ("mode", "operation") else None


def _records_again(function: ast.AST) -> bool:
    switches = ("enable_grad", "set_grad_enabled", "inference_mode")
    return any(isinstance(n, ast.Attribute) and n.attr in switches for n in nodes_within(function))


def _is_computed(node: ast.expr, ctx: Context) -> bool:
    """Say whether a value is the result of a call or an operation in the same function, not what it was given."""
    value = ctx.value(node)
    if isinstance(value, Tensor) and value.origin is not None and value.origin.operation != "batch":
        return value.requires_grad is True or any(isinstance(v, Tensor) for v in value.origin.operands)
    if isinstance(node, ast.Name):
        before = last_assignment(ctx, node.id, ctx.statement(node))
        return before is not None and before is not node and _is_computed(before, ctx)
    if isinstance(node, ast.Compare):
        return _is_computed(node.left, ctx)
    if isinstance(node, ast.Call) and ctx.call(node) is None and not isinstance(ctx.value(node.func), Method):
        return bool(node.args) and not isinstance(ctx.value(node.func), (Reference, Class))
    return any(_is_computed(part, ctx) for part in _parts(node))


def _parts(node: ast.expr) -> tuple[ast.expr, ...]:
    match node:
        case ast.BinOp(left=left, right=right):
            return left, right
        case ast.UnaryOp(operand=value) | ast.Subscript(value=value) | ast.Attribute(value=value):
            return (value,)
        case ast.Call(func=ast.Attribute(value=value), args=args):
            return (value, *args)
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            return tuple(elements)
        case ast.Call(args=args):
            return tuple(args)
        case _:
            return ()


def _reads_computed(node: ast.Call, ctx: Context) -> bool:
    return any(_is_computed(part, ctx) for argument in node.args for part in (argument, *_parts(argument)))


# -- leaves that ask for gradients which nobody gets -------------------------------------------------------------


def idle_leaf(node: ast.expr, ctx: Context, depth: int = _DEPTH) -> ast.expr | None:
    """Return where a loss is copied into a leaf that asks for gradients: backward ends there, and nothing raises."""
    if not depth or _reads_gradients(node, ctx):
        return None
    match node:
        case ast.Name(id=name):
            before = last_assignment(ctx, name, ctx.statement(node))
            return idle_leaf(before, ctx, depth - 1) if before is not None and before is not node else None
        case ast.Call(func=ast.Attribute(value=inner, attr="requires_grad_"), args=[], keywords=[]):
            return _left(inner, ctx)
        case ast.Call(func=ast.Attribute(value=inner, attr="mean" | "sum" | "squeeze")) if ctx.name(node.func) is None:
            return idle_leaf(inner, ctx, depth - 1)
        case ast.Call(args=[given, *_], keywords=keywords) if any(_asks(k) for k in keywords):
            call = ctx.call(node)
            copies = call is not None and call.operation in COPIES | {"Variable"}
            is_loss = _is_cut(given, ctx) or _reads_computed(node, ctx) or number_behind(node, ctx) is not None
            return node if copies and is_loss else None
        case _:
            return None


def number_behind(leaf: ast.expr, ctx: Context) -> ast.expr | None:
    """Return what took numbers out of a graph that were then summed, elsewhere in the function, for a copy of the sum.

    ``total += loss.item() * weight`` is one, whatever the weight is.
    """
    names = {n.id for n in walk(leaf) if isinstance(n, ast.Name)}
    for statement in nodes_within(scope_of(leaf, ctx)):
        match statement:
            case (
                ast.AugAssign(target=ast.Name(id=name), value=value)
                | ast.Assign(targets=[ast.Name(id=name)], value=value)
            ) if name in names and statement is not ctx.statement(leaf):
                calls = ((call, ctx.value(call)) for call in walk(value) if isinstance(call, ast.Call))
                taken = next((call for call, v in calls if isinstance(v, Number) and v.cut is call), None)
                if taken is not None:
                    return taken
            case _:
                pass
    return None


def _asks(keyword: ast.keyword) -> bool:
    return keyword.arg == "requires_grad" and isinstance(keyword.value, ast.Constant) and keyword.value.value is True


def _left(node: ast.expr, ctx: Context) -> ast.expr | None:
    """Return the detach that a leaf was made by, of what was computed here."""
    match node:
        case (
            ast.Call(func=ast.Attribute(value=inner, attr="detach"), args=[]) | ast.Attribute(value=inner, attr="data")
        ):
            return node if _is_computed(inner, ctx) else None
        case ast.Call(func=ast.Attribute(value=inner, attr="clone"), args=[]):
            return _left(inner, ctx)
        case _:
            return node if isinstance(node, ast.Call) and _of_copy(node, ctx) else None


def _of_copy(node: ast.Call, ctx: Context) -> bool:
    call = ctx.call(node)
    return call is not None and call.operation in COPIES and bool(node.args) and _reads_computed(node, ctx)


def _is_cut(node: ast.expr, ctx: Context) -> bool:
    cut = cut_of(node, ctx)
    return cut is not None and cut.kind in ("number", "operation")


def _reads_gradients(node: ast.expr, ctx: Context) -> bool:
    """Say whether the function reads a ``.grad``: then a leaf of its own may be meant so."""
    return any(isinstance(n, ast.Attribute) and n.attr == "grad" for n in nodes_within(scope_of(node, ctx)))
