"""Exponents: whether anything keeps the argument of an ``exp`` from growing."""

from __future__ import annotations

import ast

from drygrad.static.context import Context
from drygrad.static.facts.operations import VIEWS
from drygrad.static.facts.values import Constant, Origin, Tensor, Value, is_unknown
from drygrad.static.syntax import last_assignment
from drygrad.static.tree import walk

_BOUNDED = frozenset(
    "sub log log1p log_softmax logsigmoid tanh sigmoid softmax clamp clamp_max minimum cos sin hardtanh".split()
)
"""Operations after which the exponent does not grow without bound; ``x - x.max()`` is one, logarithms of floats are."""
_GREATEST = frozenset("max amax cummax logsumexp logcumsumexp topk sort kthvalue quantile maximum log".split())
_LEAST = frozenset("min amin topk sort kthvalue quantile minimum".split())
"""What exponents are measured from, so that one of them is 0: the greatest, or the logarithm of their sum."""
_SQUARES = frozenset("pow square cdist mahalanobis".split())
_FIXED = frozenset("arange linspace zeros ones full eye rand tensor".split())
"""Factories whose numbers the author chose, small enough."""


def may_overflow(exponential: Origin, ctx: Context) -> bool:
    """Say whether the exponent is known, and nothing in it keeps it from growing."""
    call = exponential.call
    if call is None or not call.operands or not call.values:
        return False
    value = call.values[0]
    if isinstance(value, Tensor) and value.origin is not None:
        return not _is_bounded(value)
    return _is_made_of_parameters(call.operands[0], ctx)


def _is_bounded(value: Value) -> bool:
    """Say whether a value cannot grow: its maximum was subtracted, or it is the negative of something not negative."""
    origin = value.origin if isinstance(value, Tensor) else None
    if origin is None:
        return False
    if origin.operation in _BOUNDED or origin.operation in _FIXED:
        return True
    inner = [operand for operand in origin.operands if isinstance(operand, Tensor)]
    if origin.operation == "neg":
        return any(_is_nonnegative(operand) or _is_scaled_square(operand) for operand in inner)
    if origin.operation == "mul" and _has_minus(origin.node):
        return any(_is_nonnegative(operand) for operand in inner)
    if origin.operation == "mul" and any(_is_negative(operand) for operand in origin.operands):
        return any(_is_nonnegative(operand) for operand in inner)
    if origin.operation in ("mul", "div") and any(is_unknown(operand) for operand in origin.operands):
        return True
    if origin.operation in ("mul", "div") or origin.operation in VIEWS:
        return any(_is_bounded(operand) for operand in inner)
    return False


def _is_nonnegative(value: Tensor) -> bool:
    return value.range is not None and value.range.nonnegative


def may_underflow(exponential: Origin) -> bool:
    """Say whether an exponent is a logarithm of a density: a difference that squares pull down without bound.

    Where the greatest exponent was subtracted, one of them is 0 at least.
    """
    value = exponential.operands[0] if exponential.operands else None
    origin = value.origin if isinstance(value, Tensor) and value.made_by("sub") else None
    inner = [v for v in origin.operands if isinstance(v, Tensor) and v.origin is not None] if origin is not None else []
    if len(inner) != 2 or _leads(inner[0], _LEAST) or _leads(inner[1], _GREATEST):
        return False
    weighted = inner[0].made_by("log", "log_softmax") and _is_scaled(inner[1])
    return weighted or any(_has_squares(operand) for operand in inner)


def is_negative_square(exponential: Origin) -> bool:
    """Say whether an exponent is the negative of a square: that of a normal density."""
    value = exponential.operands[0] if exponential.operands else None
    if not isinstance(value, Tensor) or not _has_squares(value):
        return False
    return value.made_by("neg") or (value.made_by("mul", "div") and _is_bounded(value))


def is_log_prob(exponential: Origin, ctx: Context) -> bool:
    """Say whether an exponent is the ``log_prob`` of a distribution, or a sum with one."""
    call = exponential.call
    node = call.operands[0] if call is not None and call.operands else None
    if isinstance(node, ast.Name):
        node = last_assignment(ctx, node.id, ctx.statement(node))
    return node is not None and _is_log_prob(node)


def _is_log_prob(node: ast.expr) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr="log_prob")):
            return True
        case ast.Call(func=ast.Attribute(value=inner, attr="sum")):
            return _is_log_prob(inner)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _is_log_prob(left) or _is_log_prob(right)
        case _:
            return False


def _is_scaled(value: Tensor) -> bool:
    """Say whether a value is a multiple, as the exponent of a normal density is: ``0.5 * distance``."""
    origin = value.origin if value.made_by("mul") else None
    return origin is not None and any(isinstance(operand, Constant) for operand in origin.operands)


def _leads(value: Tensor, operations: frozenset[str]) -> bool:
    """Say whether a value is the greatest or the least of others, seen through views and conversions."""
    origin = value.origin
    if origin is None or origin.operation in operations:
        return True
    if origin.operation not in VIEWS | {"detach", "getitem", "clone"}:
        return False
    inner = [operand for operand in origin.operands if isinstance(operand, Tensor)]
    return not inner or _leads(inner[0], operations)


def _has_squares(value: Tensor, depth: int = 6) -> bool:
    origin = value.origin
    if origin is None or not depth:
        return False
    inner = (operand for operand in origin.operands if isinstance(operand, Tensor))
    return origin.operation in _SQUARES or any(_has_squares(operand, depth - 1) for operand in inner)


def _has_minus(node: ast.expr) -> bool:
    sides = (node.left, node.right) if isinstance(node, ast.BinOp) else ()
    return any(isinstance(side, ast.UnaryOp) and isinstance(side.op, ast.USub) for side in sides)


def _is_scaled_square(value: Tensor) -> bool:
    """``precision * (x - mean) ** 2``, whose scale is above zero in every use."""
    origin = value.origin if value.made_by("mul", "div") else None
    return origin is not None and any(isinstance(v, Tensor) and v.made_by("pow", "square") for v in origin.operands)


def _is_negative(value: Value) -> bool:
    return isinstance(value, Constant) and isinstance(value.value, (int, float)) and value.value < 0


def _is_made_of_parameters(node: ast.expr, ctx: Context) -> bool:
    """Say whether an expression multiplies and divides what the function was given, and nothing else."""
    function = ctx.function(node)
    if function is None:
        return False
    given = {parameter.arg for parameter in (*function.args.posonlyargs, *function.args.args)}
    inner = list(walk(node))
    names = {part.id for part in inner if isinstance(part, ast.Name)}
    bound = {part.id for part in walk(function) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
    return names <= given - bound and all(_is_factor(part) for part in inner)


def _is_factor(node: ast.AST) -> bool:
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, (ast.Mult, ast.Div))
    return isinstance(node, (ast.Name, ast.Constant))
