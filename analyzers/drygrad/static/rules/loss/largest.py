"""Sizes that are the largest index itself: one row too few for it."""

from __future__ import annotations

import ast
import re

from drygrad.static.context import Context
from drygrad.static.facts.frame import dotted_text
from drygrad.static.facts.values import TorchCall
from drygrad.static.syntax import argument, last_assignment
from drygrad.static.tree import walk

_INDICES = re.compile(r"(^|[_.])(ids?|idx|index|indices|labels?|tokens?|mapping|codes?)$|(2|_to_)(id|idx|index|ix)$")
"""What is called so holds indices, which count from 0; a largest length or count is a size already."""


def largest_index(call: TorchCall, ctx: Context) -> ast.expr | None:
    """Return the ``max(ids)`` that an embedding takes for its number of rows, or ``one_hot`` for that of classes."""
    made = call.module.node if call.module is not None else None
    if isinstance(made, ast.Call):
        size = argument(made, "num_embeddings", 0)
    else:
        size = call.keywords.get("num_classes") or next(iter(call.operands[1:]), None)
    if size is None or (call.operation == "embedding" and not isinstance(made, ast.Call)):
        return None
    if isinstance(size, ast.Name):
        size = last_assignment(ctx, size.id, ctx.statement(size))
    indices = _maximum_of(size)
    if indices is None or not _INDICES.search(_name_of(indices)) or _is_shifted(call, ctx):
        return None
    return size


def _maximum_of(size: ast.expr | None) -> ast.expr | None:
    """Return what an expression is the largest element of, ``int`` and ``item`` aside."""
    match size:
        case ast.Call(func=ast.Name(id="max"), args=[given]):
            return given
        case ast.Call(func=ast.Attribute(value=given, attr="max" | "amax"), args=[], keywords=[]):
            return given
        case ast.Call(func=ast.Name(id="int"), args=[inner]):
            return _maximum_of(inner)
        case ast.Call(func=ast.Attribute(value=inner, attr="item"), args=[]):
            return _maximum_of(inner)
        case _:
            return None


def _name_of(node: ast.expr) -> str:
    match node:
        case ast.Call(func=ast.Attribute(value=owner, attr="values"), args=[]):
            return _name_of(owner)
        case ast.Subscript(slice=ast.Constant(value=str() as key)):
            return key
        case _:
            return dotted_text(node) or ""


def _is_shifted(call: TorchCall, ctx: Context) -> bool:
    """Say whether the indices that are looked up are moved down first, as those are that count from 1."""
    given = call.operand("input")
    if isinstance(given, ast.Name):
        given = last_assignment(ctx, given.id, ctx.statement(given)) or given
    parts = (part for part in walk(given) if isinstance(part, ast.BinOp)) if given is not None else ()
    return given is None or any(isinstance(part.op, (ast.Sub, ast.Mod)) for part in parts)
