"""What a statement keeps beyond its step: in a list, under a key, in a slot of a tensor, as a part of a total."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from drygrad.static.context import Context
from drygrad.static.facts.frame import dotted_text
from drygrad.static.facts.operations import OPERATORS
from drygrad.static.facts.values import Tensor
from drygrad.static.tree import walk

_APPENDS = frozenset({"append", "appendleft", "extend", "insert"})
_JOINS = frozenset({"add", "sub", "mul", "div", "lerp", "cat", "stack", "hstack", "vstack", "maximum", "minimum"})
"""Operations that make one tensor of the old total and of what is new."""
_ADDS = frozenset({"add", "sub", "lerp"})
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div)


class Keeping(NamedTuple):
    """``kept`` is stored in what ``name`` stands for; ``linked`` where it is part of one graph there, a total's."""

    owner: ast.expr
    name: str
    kept: ast.expr
    linked: bool


def keepings(node: ast.AST, ctx: Context) -> Iterator[Keeping]:
    """Yield what a statement, or a call, adds to something that was there before it."""
    match node:
        case ast.Call(func=ast.Attribute(value=owner, attr=method)):
            yield from _of_call(node, owner, method, ctx)
        case ast.AugAssign(target=target, op=ast.Add() | ast.Sub(), value=value):
            listed = _elements(value)
            if _is_recurrent(target, value):
                return
            for part in [value] if listed is None else listed:
                yield from _each(target, part, listed is None, ctx)
        case ast.Assign(targets=[ast.Subscript(value=owner) as slot], value=value):
            if not _is_part(slot, value):
                yield from _slot(owner, slot, value, ctx)
            else:
                yield from _rebound(slot, value, ctx)
        case ast.Assign(targets=[ast.Name() | ast.Attribute() as target], value=value):
            yield from _rebound(target, value, ctx)
        case _:
            return


def root_of(owner: ast.expr) -> ast.expr:
    """Return what holds a container: ``log`` of ``log["loss"]`` and of ``log.setdefault("loss", [])``."""
    while True:
        match owner:
            case ast.Subscript(value=inner) | ast.Call(func=ast.Attribute(value=inner, attr="setdefault")):
                owner = inner
            case _:
                return owner


def _each(owner: ast.expr, kept: ast.expr, linked: bool, ctx: Context) -> Iterator[Keeping]:
    """Yield what is kept of an item: of a pair or a record, its parts."""
    name = dotted_text(root_of(owner))
    parts = None if linked else _elements(kept)
    if isinstance(kept, ast.Dict) and not linked:
        parts = kept.values
    elif isinstance(kept, ast.Call) and ctx.name(kept.func) == "builtins.dict":
        parts = [keyword.value for keyword in kept.keywords]
    for part in parts or []:
        yield from _each(owner, part, linked, ctx)
    if parts is None and name is not None and not isinstance(kept, ast.Starred):
        yield Keeping(owner, name, kept, linked)


def _elements(node: ast.expr) -> list[ast.expr] | None:
    return node.elts if isinstance(node, (ast.List, ast.Tuple)) else None


# -- calls ------------------------------------------------------------------------------------------------------


def _of_call(node: ast.Call, owner: ast.expr, method: str, ctx: Context) -> Iterator[Keeping]:
    match method, node.args:
        case ("append" | "appendleft", [item]) | ("insert", [_, item]):
            yield from _each(owner, item, False, ctx)
        case "extend", [ast.List(elts=items) | ast.Tuple(elts=items)]:
            for item in items:
                yield from _each(owner, item, False, ctx)
        case "update", [ast.Dict(keys=keys, values=values)]:
            for key, value in zip(keys, values, strict=True):
                if key is not None and not isinstance(key, ast.Constant):
                    yield from _each(owner, value, False, ctx)
        case "setdefault", [key, value] if not isinstance(key, ast.Constant):
            yield from _each(owner, value, False, ctx)
        case _:
            yield from _in_place(node, ctx)


def _in_place(node: ast.Call, ctx: Context) -> Iterator[Keeping]:
    """``total.mul_(0.9).add_(loss)``: a total that is written in place takes the graph of what is written."""
    call = ctx.call(node)
    if call is None or not call.inplace or call.operation not in _ADDS or len(call.operands) < 2:
        return
    owner = call.operands[0]
    while isinstance(owner, ast.Call) and isinstance(owner.func, ast.Attribute) and owner.func.attr.endswith("_"):
        owner = owner.func.value
    yield from _each(owner, call.operands[1], True, ctx)


# -- assignments ------------------------------------------------------------------------------------------------


def _slot(owner: ast.expr, slot: ast.Subscript, value: ast.expr, ctx: Context) -> Iterator[Keeping]:
    """``cache[i] = loss``: another slot at each step; one that is written again and again keeps one value."""
    names = [n for n in walk(slot.slice) if isinstance(n, ast.Name)]
    wraps = any(isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mod) for n in walk(slot.slice))
    if names and not wraps:
        yield from _each(owner, value, isinstance(ctx.value(root_of(owner)), Tensor), ctx)


def _is_part(owner: ast.expr, value: ast.expr) -> bool:
    text = ast.dump(owner).replace("Store()", "Load()")
    return any(isinstance(part, ast.Subscript) and ast.dump(part) == text for part in walk(value))


def _rebound(target: ast.expr, value: ast.expr, ctx: Context) -> Iterator[Keeping]:
    """``kept = [*kept, loss]``, ``total = total + loss``: the new value has the old one in it."""
    for way in _ways(value):
        items = _listed_with(target, way)
        if items is not None:
            for item in items:
                yield from _each(target, item, False, ctx)
            continue
        leaves = list(_leaves(way, ctx))
        if len(leaves) > 1 and any(_same(target, leaf) for leaf in leaves):
            for leaf in _shares(target, way, ctx):
                if _is_recurrent(target, leaf):
                    return
                yield Keeping(target, dotted_text(root_of(target)) or "", leaf, True)


def _is_recurrent(target: ast.expr, new: ast.expr) -> bool:
    """``x = x + layer(x)`` is no total: each part is computed from the last."""
    return any(isinstance(part, ast.expr) and _same(target, part) for part in walk(new))


def _ways(value: ast.expr) -> Iterator[ast.expr]:
    if isinstance(value, ast.IfExp):
        yield from (*_ways(value.body), *_ways(value.orelse))
    else:
        yield value


def _same(target: ast.expr, other: ast.expr) -> bool:
    return type(target) is type(other) and ast.dump(target).replace("Store()", "Load()") == ast.dump(other)


def _listed_with(target: ast.expr, value: ast.expr) -> list[ast.expr] | None:
    """Return the new items of a list or tuple that is made of the old one and of these."""
    match value:
        case ast.List(elts=items) | ast.Tuple(elts=items):
            old = [i for i in items if isinstance(i, ast.Starred) and _same(target, i.value)]
            return [i for i in items if i not in old] if old else None
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            new = right if _same(target, left) else left if _same(target, right) else None
            return _elements(new) if new is not None else None
        case _:
            return None


def _operands(value: ast.expr, ctx: Context) -> list[ast.expr]:
    """Return what arithmetic, or an operation that joins tensors, makes its result of."""
    match value:
        case ast.BinOp(left=left, op=op, right=right) if isinstance(op, _ARITHMETIC):
            assert type(op).__name__ in OPERATORS
            return [left, right]
        case ast.Call():
            call = ctx.call(value)
            if call is None or call.inplace or call.operation not in _JOINS:
                return []
            return [part for operand in call.operands for part in _elements(operand) or [operand]]
        case _:
            return []


def _leaves(value: ast.expr, ctx: Context) -> Iterator[ast.expr]:
    operands = _operands(value, ctx)
    if not operands:
        yield value
    for operand in operands:
        yield from _leaves(operand, ctx)


def _shares(target: ast.expr, value: ast.expr, ctx: Context) -> Iterator[ast.expr]:
    """Yield the largest parts of a new total that the old one has no part in."""
    for operand in _operands(value, ctx):
        if any(_same(target, leaf) for leaf in _leaves(operand, ctx)):
            yield from _shares(target, operand, ctx)
        else:
            yield operand
