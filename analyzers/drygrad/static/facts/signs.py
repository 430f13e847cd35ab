"""The sign of all elements of a result: above zero, not below zero, zero."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from drygrad.static.facts.values import Constant, Origin, Sequence, Sign, Tensor, TorchCall, Value, element_of

_POSITIVE = frozenset("exp exp2 cosh softplus".split())
_NONNEGATIVE = frozenset(
    "abs square sqrt relu relu6 norm std var sigmoid softmax hardsigmoid one_hot cdist count_nonzero bincount "
    "pairwise_distance mse_loss l1_loss cross_entropy smooth_l1_loss huber_loss rand rand_like eye bernoulli".split()
)
_KEEPING = frozenset(
    "sum mean amax amin max min prod median cumsum view reshape permute transpose t squeeze unsqueeze expand flatten "
    "contiguous clone detach to float double half bfloat16 cuda cpu repeat getitem expand_as view_as roll flip gather "
    "index_select positive chunk split unbind narrow select diagonal sort topk movedim unfold sqrt square abs relu "
    "norm log1p expm1 tanh erf atan sinh asinh ceil repeat_interleave avg_pool1d avg_pool2d max_pool1d max_pool2d "
    "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_max_pool2d".split()
)
"""Operations whose result has the sign of its first operand."""
_UNIT_INTERVAL = frozenset({"sigmoid", "softmax", "hardsigmoid", "rand", "rand_like", "bernoulli", "one_hot"})
"""Operations whose result lies between 0 and 1."""
_AROUND_ZERO = frozenset({"tanh", "sin", "cos", "erf"})
"""Operations whose result lies between -1 and 1."""
_SMALLEST = 1e-7
"""What is left of 1 in float32 where less has been taken away."""

_SCALED = frozenset({"alpha", "rounding_mode"})
"""Arguments that change what a sum or a quotient is."""
_FILLED = {"full": 1, "full_like": 1, "fill": 1, "new_full": 2}
"""Operations that set all elements to one number, with the position of that number."""


def sign_of(value: Value | None) -> Sign | None:
    """Return what is known of the sign of a number or of all elements of a tensor or of a list."""
    match value:
        case Tensor(sign=None, dtype="bool" | "uint8"):
            return "nonnegative"
        case Tensor(sign=sign):
            return sign
        case Constant(value=bool() | int() | float() as number) if number >= 0:
            return "positive" if number > 0 else "zero"
        case Sequence():
            return _common(value.items if value.items is not None else (element_of(value),))
        case _:
            return None


def sign_of_result(operation: str, values: tuple[Value, ...], call: TorchCall | None) -> Sign | None:
    """Return the sign of what an operation on tensors and numbers gives."""
    if operation in _POSITIVE:
        return "positive"
    if call is not None and not _SCALED.isdisjoint(call.keyword_values):
        return None
    special = _SPECIAL.get(operation)
    if special is not None:
        return special(_operands(values, call))
    first = sign_of(values[0]) if values else None
    if operation in _KEEPING and first and (operation not in ("max", "min") or len(values) == 1):
        return _kept(operation, values[0], first)
    return "nonnegative" if operation in _NONNEGATIVE else _of_factory(operation, values, call)


def _operands(values: tuple[Value, ...], call: TorchCall | None) -> tuple[Value, ...]:
    """Return the operands in the order of the signature, those given by keyword included."""
    if call is None or not call.keyword_values:
        return values
    by_name = (call.value(name) for name in call.signature[len(values) :])
    return (*values, *(v if v is not None else Constant(None) for v in by_name))


def _kept(operation: str, value: Value, sign: Sign) -> Sign:
    """Probabilities may each underflow to zero; their sum, norm and largest do not."""
    if operation in ("sum", "norm", "max", "amax") and isinstance(value, Tensor) and _holds_largest(value):
        return "positive"
    return sign


def _holds_largest(value: Tensor) -> bool:
    """Say whether a tensor has the largest of the probabilities that softmax gave, in each row."""
    if value.made_by("softmax"):
        return True
    inner = value.origin.operands[0] if value.made_by("topk", "sort", "to", "float") and value.origin else None
    return isinstance(inner, Tensor) and _holds_largest(inner)


def _of_factory(operation: str, values: tuple[Value, ...], call: TorchCall | None) -> Sign | None:
    match operation:
        case "ones" | "ones_like" | "new_ones":
            return "positive"
        case "zeros" | "zeros_like" | "new_zeros" | "zero":
            return "zero"
        case "tensor" | "as_tensor":
            return sign_of(values[0]) if values else None
        case _ if operation in _FILLED:
            given = call.keyword_values.get("fill_value") if call is not None else None
            return sign_of(given or next(iter(values[_FILLED[operation] :]), None))
        case _:
            return None


# -- operations on two ------------------------------------------------------------------------------------------


def _add(values: tuple[Value, ...]) -> Sign | None:
    signs = [sign_of(value) for value in values[:2]]
    if len(values) != 2 or None in signs:
        return None
    if "positive" in signs:
        return "positive"
    return "zero" if signs == ["zero", "zero"] else "nonnegative"


def _sub(values: tuple[Value, ...]) -> Sign | None:
    """``1 - p`` for a probability p, the square of a tanh, or of what a clamp has bounded."""
    if len(values) == 2 and values[1] == Constant(0):
        return sign_of(values[0])
    bounds = [_bounds(value) for value in values]
    if len(bounds) != 2 or bounds[0] is None or bounds[1] is None:
        return None
    least = bounds[0][0] - bounds[1][1]
    return "positive" if least >= _SMALLEST else "nonnegative" if least >= 0 else None


def _bounds(value: Value) -> tuple[float, float] | None:
    """Return two numbers between which all elements lie."""
    match value:
        case Constant(value=int() | float() as number):
            return float(number), float(number)
        case Tensor() if value.dtype == "bool" or value.made_by(*_UNIT_INTERVAL):
            return 0.0, 1.0
        case Tensor() if value.made_by(*_AROUND_ZERO):
            return -1.0, 1.0
        case Tensor(origin=Origin(operation="clamp", call=TorchCall() as call)):
            low, high = call.constant("min", None), call.constant("max", None)
            return (low, high) if isinstance(low, (int, float)) and isinstance(high, (int, float)) else None
        case Tensor() if (base := _squared(value)) is not None and (inner := _bounds(base)) is not None:
            return 0.0, max(inner[0] ** 2, inner[1] ** 2)
        case _:
            return None


def _squared(tensor: Tensor) -> Tensor | None:
    """Return what a tensor is the square of."""
    origin = tensor.origin
    if origin is None or not origin.operands or origin.operation not in ("square", "pow", "mul"):
        return None
    base, *others = origin.operands
    exponent = {"square": [], "pow": [Constant(2)], "mul": [base]}[origin.operation]
    return base if others == exponent and isinstance(base, Tensor) else None


def tanh_squared(tensor: Tensor) -> Origin | None:
    """Return the tanh that a tensor is the square of."""
    base = _squared(tensor)
    return base.origin if base is not None and base.made_by("tanh") else None


def _mul(values: tuple[Value, ...]) -> Sign | None:
    if len(values) != 2:
        return None
    signs = [sign_of(value) for value in values]
    if "zero" in signs:
        return "zero"
    if None not in signs:
        return "positive" if signs == ["positive", "positive"] else "nonnegative"
    return "nonnegative" if _same(*values) else None


def _same(first: Value, second: Value) -> bool:
    return isinstance(first, Tensor) and first.origin is not None and first == second


def _div(values: tuple[Value, ...]) -> Sign | None:
    """A quotient by zero is NaN or infinite; the sign says what the other elements are."""
    if len(values) != 2:
        return None
    dividend, divisor = map(sign_of, values)
    return None if divisor in (None, "zero") else dividend


def _pow(values: tuple[Value, ...]) -> Sign | None:
    if len(values) != 2:
        return None
    base, exponent = sign_of(values[0]), values[1]
    if base == "positive":
        return "positive"
    number = exponent.value if isinstance(exponent, Constant) else None
    if not isinstance(number, (int, float)):
        return "nonnegative" if base is not None else None
    if number <= 0:
        return "positive" if number == 0 or base is not None else None
    return "nonnegative" if base is not None or number % 2 == 0 else None


def _matmul(values: tuple[Value, ...]) -> Sign | None:
    return "nonnegative" if len(values) == 2 and all(map(sign_of, values)) else None


def _inverse(values: tuple[Value, ...]) -> Sign | None:
    return "positive" if values and sign_of(values[0]) in ("positive", "nonnegative") else None


# -- operations that choose -------------------------------------------------------------------------------------


def _common(values: Iterable[Value]) -> Sign | None:
    signs: set[Sign | None] = {sign_of(value) for value in values}
    if len(signs) == 1:
        return signs.pop()
    return "nonnegative" if signs and None not in signs else None


def _larger(values: tuple[Value, ...]) -> Sign | None:
    signs = [sign_of(value) for value in values[:2]]
    if "positive" in signs:
        return "positive"
    if signs == ["zero", "zero"]:
        return "zero"
    return "nonnegative" if any(signs) else None


def _smaller(values: tuple[Value, ...]) -> Sign | None:
    signs = [sign_of(value) for value in values[:2]]
    if None in signs or len(signs) < 2:
        return None
    if "zero" in signs:
        return "zero"
    return "positive" if signs == ["positive", "positive"] else "nonnegative"


def _clamp(values: tuple[Value, ...]) -> Sign | None:
    """``clamp(x, min, max)``: the upper bound wins where they cross."""
    tensor, lower, upper = (*values, Constant(None), Constant(None))[:3]
    raised = sign_of(tensor) if _is_none(lower) else _larger((tensor, lower))
    return raised if _is_none(upper) else _smaller((_stand_in(raised), upper))


def _clamp_max(values: tuple[Value, ...]) -> Sign | None:
    return _clamp((values[0], Constant(None), *values[1:])) if values else None


def _is_none(value: Value) -> bool:
    return isinstance(value, Constant) and value.value is None


def _stand_in(sign: Sign | None) -> Tensor:
    return Tensor(sign=sign)


_SPECIAL: dict[str, Callable[[tuple[Value, ...]], Sign | None]] = {
    "add": _add,
    "sub": _sub,
    "mul": _mul,
    "div": _div,
    "pow": _pow,
    "matmul": _matmul,
    "bmm": _matmul,
    "mm": _matmul,
    "rsqrt": _inverse,
    "reciprocal": _inverse,
    "maximum": _larger,
    "minimum": _smaller,
    "clamp": _clamp,
    "clamp_min": _clamp,
    "clamp_max": _clamp_max,
    "where": lambda values: _common(values[1:3]) if len(values) == 3 else None,
    "masked_fill": lambda values: _common((values[0], values[2])) if len(values) == 3 else None,
    "setitem": lambda values: _common(values[:2]),
    "copy": lambda values: sign_of(values[1]) if len(values) > 1 else None,
    "cat": lambda values: sign_of(values[0]) if values else None,
    "stack": lambda values: sign_of(values[0]) if values else None,
}
