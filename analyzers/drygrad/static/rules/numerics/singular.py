"""Operations with a singular point, given what reaches it by the program's own doing, however both are written."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from drygrad.static.context import Context
from drygrad.static.facts.interval import End, Range
from drygrad.static.facts.ranges import range_of
from drygrad.static.facts.values import Constant, Origin, Quantity, Tensor, Value

QUOTIENTS = {"div": 1, "reciprocal": 0, "rsqrt": 0, "addcdiv": 2, "pow": 0, "float_power": 0}
"""Operations that divide by one of their operands, with its position; powers where the exponent is negative."""
LOGARITHMS: dict[str, tuple[float, ...]] = {
    "log": (0.0,), "log2": (0.0,), "log10": (0.0,), "log1p": (-1.0,), "logit": (0.0, 1.0), "atanh": (-1.0, 1.0),
    "erfinv": (-1.0, 1.0),
}  # fmt: skip
"""Operations that are infinite at these points."""
ROOTS = frozenset({"sqrt", "pow", "float_power"})
"""Operations whose slope at 0 is infinite; powers where the exponent lies between 0 and 1."""
ARCS: dict[str, tuple[float, ...]] = {"acos": (-1.0, 1.0), "asin": (-1.0, 1.0)}
"""Operations whose slope at these points is infinite."""


@dataclass(frozen=True, slots=True)
class Singular:
    """An operation whose argument reaches a singular point of it."""

    node: ast.expr | ast.stmt
    operation: str
    argument: ast.expr
    value: Value
    range: Range
    point: float

    @property
    def always(self) -> bool:
        """Whether every element is at the singular point."""
        return self.range.is_always(self.point)

    @property
    def surely(self) -> bool:
        """Whether one element at least is at the singular point."""
        return self.range.reach(self.point) is End.SURE

    @property
    def tensor(self) -> Tensor | None:
        """The argument, where it is a tensor for certain."""
        return self.value if isinstance(self.value, Tensor) else None

    @property
    def origin(self) -> Origin | None:
        """What made the argument."""
        return self.value.origin if isinstance(self.value, (Tensor, Quantity)) else None

    @property
    def is_argument(self) -> bool:
        """Whether the argument stands between the parentheses of a call."""
        return isinstance(self.node, ast.Call) and self.argument in self.node.args


def quotient_at(node: ast.BinOp | ast.AugAssign | ast.Call, ctx: Context) -> Singular | None:
    """Return the division by what reaches 0 that a node is."""
    found = _operands(node, ctx)
    if found is None or found[0] not in QUOTIENTS:
        return None
    operation, operands = found
    if operation in ("pow", "float_power") and not _exponent(operands, ctx) < 0:
        return None
    return _reaching(node, operation, operands, QUOTIENTS[operation], (0.0,), ctx)


def logarithm_at(node: ast.Call, ctx: Context) -> Singular | None:
    """Return the logarithm, or other function with a pole, of what reaches the pole."""
    found = _operands(node, ctx)
    if found is None or found[0] not in LOGARITHMS:
        return None
    operation, operands = found
    if operation == "logit" and (len(operands) > 1 or node.keywords):
        return None
    return _reaching(node, operation, operands, 0, LOGARITHMS[operation], ctx)


def root_at(node: ast.BinOp | ast.Call, ctx: Context) -> Singular | None:
    """Return the root of what reaches 0."""
    found = _operands(node, ctx)
    if found is None or found[0] not in ROOTS:
        return None
    operation, operands = found
    if operation != "sqrt" and not 0 < _exponent(operands, ctx) < 1:
        return None
    return _reaching(node, operation, operands, 0, (0.0,), ctx)


def arc_at(node: ast.Call, ctx: Context) -> Singular | None:
    """Return the arccosine or arcsine of what reaches 1 or -1."""
    found = _operands(node, ctx)
    if found is None or found[0] not in ARCS:
        return None
    return _reaching(node, found[0], found[1], 0, ARCS[found[0]], ctx)


def _operands(node: ast.BinOp | ast.AugAssign | ast.Call, ctx: Context) -> tuple[str, list[ast.expr]] | None:
    match node:
        case ast.BinOp(op=ast.Div()):
            return "div", [node.left, node.right]
        case ast.BinOp(op=ast.Pow()):
            return "pow", [node.left, node.right]
        case ast.AugAssign(op=ast.Div()):
            return "div", [node.target, node.value]
        case ast.Call():
            call = ctx.call(node)
            if call is None or "rounding_mode" in call.keywords:
                return None
            by_name = [call.operand(name) for name in call.signature[len(call.operands) :]]
            return call.operation, [*call.operands, *(operand for operand in by_name if operand is not None)]
        case _:
            return None


def _exponent(operands: list[ast.expr], ctx: Context) -> float:
    value = ctx.value(operands[1]) if len(operands) > 1 else None
    number = value.value if isinstance(value, Constant) else None
    return float(number) if isinstance(number, (int, float)) else float("nan")


def _reaching(
    node: ast.expr | ast.stmt,
    operation: str,
    operands: list[ast.expr],
    index: int,
    points: tuple[float, ...],
    ctx: Context,
) -> Singular | None:
    if len(operands) <= index:
        return None
    argument = operands[index]
    value = ctx.quantity(argument)
    known = range_of(value)
    if known is None:
        return None
    point = next((point for point in points if known.reach(point) is not End.OPEN), None)
    return None if point is None else Singular(node, operation, argument, value, known, point)


def is_of_arrays(found: Singular, ctx: Context) -> bool:
    """Say whether an argument is a tensor, or was computed by methods of arrays or from what a model is given."""
    call = ctx.call(found.node) if isinstance(found.node, ast.Call) else None
    if call is not None and call.form == "function":
        return True
    node = found.node
    others = [node.left] if isinstance(node, ast.BinOp) else [node.target] if isinstance(node, ast.AugAssign) else []
    return any(ctx.tensor(other) is not None for other in others) or _is_of_arrays(found.value, ctx)


def _is_of_arrays(value: Value, ctx: Context, deepest: int = 5) -> bool:
    if isinstance(value, Tensor):
        return True
    if not isinstance(value, Quantity) or not deepest:
        return False
    if value.origin is None:
        return isinstance(value.storage, ast.arg) and _is_given_to_model(value.storage, ctx)
    if value.origin.call is not None:
        return True
    return any(_is_of_arrays(operand, ctx, deepest - 1) for operand in value.origin.operands)


def _is_given_to_model(parameter: ast.arg, ctx: Context) -> bool:
    function = ctx.function(parameter)
    owner = ctx.parent(function) if function is not None else None
    if function is None or function.name != "forward" or not isinstance(owner, ast.ClassDef):
        return False
    positional = [*function.args.posonlyargs, *function.args.args]
    required = positional[: len(positional) - len(function.args.defaults)]
    return ctx.is_module_class(owner) and parameter in required
