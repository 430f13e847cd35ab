"""Between which numbers the elements of a result lie, and whether they reach the ends by the program's own doing."""

from __future__ import annotations

import math
from collections.abc import Callable

from drygrad.static.facts.elementwise_ranges import (
    COMPARISONS,
    GROWING,
    UNARY,
    inverse,
    larger_of,
    root,
    smaller_of,
    squared,
)
from drygrad.static.facts.interval import (
    ANY,
    NONNEGATIVE,
    POSITIVE,
    UNIT,
    ZERO,
    End,
    Range,
    point,
    union_of,
)
from drygrad.static.facts.values import (
    Constant,
    Number,
    Origin,
    Quantity,
    Sequence,
    Tensor,
    TorchCall,
    Value,
    element_of,
)

_SAME = frozenset(
    "view reshape permute transpose t squeeze unsqueeze expand flatten contiguous clone detach to float double half "
    "bfloat16 cuda cpu repeat expand_as view_as roll flip positive movedim repeat_interleave chunk split unbind sort "
    "parameter data batch dropout1d broadcast_to tile ravel unflatten swapaxes atleast_1d atleast_2d numpy item".split()
)
"""Operations whose result has all the elements of their first operand."""
_SOME = frozenset(
    "getitem narrow select diagonal topk gather index_select unfold median nanmedian kthvalue mode quantile "
    "max_pool1d max_pool2d max_pool3d adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d masked_select take "
    "take_along_dim mean nanmean avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d interpolate "
    "max amax min amin unique".split()
)
"""Operations whose result has some of the elements of their first operand, or what lies between these."""
_AVERAGES = frozenset("mean nanmean avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d".split())
_TOTALS = frozenset("sum nansum cumsum logcumsumexp".split())
_NORMS = frozenset("norm cdist pairwise_distance dist pdist".split())


def range_of(value: Value | None) -> Range | None:
    """Return what is known of the range of a number, or of all elements of a tensor or of a list."""
    match value:
        case Tensor(range=None, dtype="bool"):
            return UNIT
        case Tensor(range=None, dtype="uint8"):
            return NONNEGATIVE
        case Tensor(range=known) | Number(range=known) | Quantity(range=known):
            return known
        case Constant(value=bool() | int() | float() as number) if not math.isnan(number):
            return point(number)
        case Sequence():
            return union_of(map(range_of, value.items if value.items is not None else (element_of(value),)))
        case _:
            return None


def range_of_result(operation: str, values: tuple[Value, ...], call: TorchCall | None) -> Range | None:
    """Return the range of what an operation on tensors and numbers gives."""
    special = _SPECIAL.get(operation)
    if special is not None:
        if call is not None and not _SCALED.isdisjoint(call.keyword_values):
            return None
        return special(_operands(values, call))
    first = range_of(values[0]) if values else None
    if operation in UNARY:
        held = first is None and values and _is_held(values[0], call)
        return UNARY[operation](ANY if held else first)
    if operation in GROWING:
        function, otherwise = GROWING[operation]
        return otherwise if first is None or first == ANY else first.mapped(function)
    if operation in _SAME:
        return first
    if operation in _SOME:
        return _of_some(operation, values, first)
    if operation in _TOTALS:
        return _total(values, first)
    if operation in _NORMS:
        return _norm(values, ANY if first is None and values and _is_held(values[0], call) else first)
    return _of_factory(operation, values, call)


def _is_held(value: Value, call: TorchCall | None = None) -> bool:
    """Say whether a value is a parameter of the model, or an attribute or global that nobody knows: no data."""
    if isinstance(value, Tensor):
        return value.parameter or value.buffer
    return call is None and not isinstance(value, Quantity)


_SCALED = frozenset({"alpha", "rounding_mode"})
"""Arguments that change what a sum or a quotient is."""


def _operands(values: tuple[Value, ...], call: TorchCall | None) -> tuple[Value, ...]:
    """Return the operands in the order of the signature, those given by keyword included."""
    if call is None or not call.keyword_values:
        return values
    by_name = (call.value(name) for name in call.signature[len(values) :])
    return (*values, *(v if v is not None else Constant(None) for v in by_name))


# -- operations on one ------------------------------------------------------------------------------------------


def _norm(values: tuple[Value, ...], given: Range | None) -> Range:
    if values and holds_largest(values[0]):
        return POSITIVE
    if given is None:
        return NONNEGATIVE
    magnitudes = given.magnitudes().picked()
    return Range(magnitudes.low, math.inf, magnitudes.at_low) if not magnitudes.is_always(0) else ZERO


def _of_some(operation: str, values: tuple[Value, ...], given: Range | None) -> Range | None:
    if given is None or not values or (operation in ("max", "min") and any(isinstance(v, Tensor) for v in values[1:])):
        return None
    if operation in ("max", "amax") and holds_largest(values[0]):
        return Range(0.0, 1.0)
    return given.averaged() if operation in _AVERAGES else given.picked()


def _total(values: tuple[Value, ...], given: Range | None) -> Range | None:
    """Probabilities may each be rounded to 0; the sum of what has their largest is not."""
    if given is None or given.is_always(0) or given == ANY:
        return given
    if holds_largest(values[0]):
        return POSITIVE
    some = given.averaged()
    if some.nonnegative:
        return Range(some.low, math.inf, some.at_low)
    return Range(-math.inf, some.high, End.OPEN, some.at_high) if some.high <= 0 else None


def holds_largest(value: Value) -> bool:
    """Say whether a tensor has the largest of the probabilities that softmax gave, in each row, or a share of it."""
    origin = value.origin if isinstance(value, Tensor) else None
    if origin is None or origin.operation not in _KEEPS_LARGEST:
        return False
    if origin.operation == "softmax":
        return True
    if origin.operation == "mul":
        known = [range_of(operand) for operand in origin.operands if not isinstance(operand, Tensor)]
        return all(each is not None and each.low > 0 for each in known) and any(map(holds_largest, origin.operands))
    if origin.operation == "add":
        known = range_of(value)
        return any(map(holds_largest, origin.operands)) and known is not None and known.nonnegative
    return bool(origin.operands) and holds_largest(origin.operands[0])


_KEEPS_LARGEST = frozenset("softmax topk sort to float mul add pow square".split())


# -- new tensors ------------------------------------------------------------------------------------------------

_FILLED = {"full": 1, "full_like": 1, "fill": 1, "new_full": 2}
"""Operations that set all elements to one number, with the position of that number."""


def _of_factory(operation: str, values: tuple[Value, ...], call: TorchCall | None) -> Range | None:
    match operation:
        case "ones" | "ones_like" | "new_ones":
            return point(1)
        case "zeros" | "zeros_like" | "new_zeros" | "zero":
            return ZERO
        case "eye":
            return Range(0.0, 1.0, End.SURE, End.SURE)
        case "tensor" | "as_tensor" | "new_tensor":
            return range_of(values[-1]) if values else None
        case "arange" | "linspace" | "randint":
            return _of_steps(operation, [range_of(value) for value in values])
        case _ if operation in _FILLED:
            given = call.keyword_values.get("fill_value") if call is not None else None
            return range_of(given or next(iter(values[_FILLED[operation] :]), None))
        case _:
            return None


def _of_steps(operation: str, given: list[Range | None]) -> Range | None:
    """``arange``, ``linspace`` and ``randint`` begin with their first number, or with 0 where they have but a last."""
    numbers = [each.low if each is not None and each.low == each.high else None for each in given]
    if operation == "randint":
        return NONNEGATIVE if len(given) == 2 or numbers[:1] == [0.0] else None
    first, last, *others = [0.0, None] if len(given) == 1 and operation == "arange" else [*numbers, None, None][:3]
    if first is None or (others[:1] not in ([], [None], [1.0]) and operation == "arange"):
        return None
    if operation == "linspace" and (last is None or last < first):
        return None
    return Range(first, math.inf if operation == "arange" or last is None else last, End.SURE,
                 End.SURE if operation == "linspace" else End.OPEN)  # fmt: skip


# -- operations on two ------------------------------------------------------------------------------------------


def _add(values: tuple[Value, ...]) -> Range | None:
    if len(values) < 2:
        return None
    first, second = map(range_of, values[:2])
    if first is not None and second is not None:
        return first + second
    known, other = (first, values[1]) if second is None else (second, values[0])
    return None if known is None or known.is_always(0) or other == Constant(None) else ANY


def _sub(values: tuple[Value, ...]) -> Range | None:
    if len(values) < 2:
        return None
    first, second = values[:2]
    if same(first, second):
        return ZERO
    ends = _between_ends(first, second)
    if ends is not None:
        return ends
    minuend, subtrahend = range_of(first), range_of(second)
    if minuend is None or subtrahend is None:
        return minuend if subtrahend is not None and subtrahend.is_always(0) else None
    return minuend - subtrahend


def _between_ends(first: Value, second: Value) -> Range | None:
    """``x.max() - x`` is nowhere below 0, and 0 at the maximum; ``x.max() - x.min()`` is 0 if all are the same."""
    above, below = _extreme_of(first, "max", "amax"), _extreme_of(second, "min", "amin")
    if above is not None and below is not None:
        return NONNEGATIVE if same(above, below) else None
    if (above is not None and same(above, second)) or (below is not None and same(first, below)):
        return Range(0.0, at_low=End.SURE)
    least, greatest = _extreme_of(first, "min", "amin"), _extreme_of(second, "max", "amax")
    if (least is not None and same(least, second)) or (greatest is not None and same(first, greatest)):
        return Range(high=0.0, at_high=End.SURE)
    return None


def _extreme_of(value: Value, *operations: str) -> Value | None:
    """Return the tensor whose largest, or smallest, element a value is."""
    origin = value.origin if isinstance(value, (Tensor, Quantity)) else None
    while origin is not None and origin.operation in ("unsqueeze", "view", "detach", "clone") and origin.operands:
        inner = origin.operands[0]
        origin = inner.origin if isinstance(inner, (Tensor, Quantity)) else None
    return origin.operands[0] if origin is not None and origin.operation in operations and origin.operands else None


def same(first: Value, second: Value) -> bool:
    """Say whether two values are surely the same numbers: one is the other, or a copy of it.

    Of an operation with several results, or of several elements, one knows as much and each is another.
    """
    first, second = _uncopied(first), _uncopied(second)
    if not (isinstance(first, (Tensor, Quantity)) and isinstance(second, (Tensor, Quantity))):
        return False
    if first.storage is None or first.storage is not second.storage or first.origin != second.origin:
        return False
    return getattr(first, "part", None) is getattr(second, "part", None)


def _uncopied(value: Value) -> Value:
    for _ in range(4):
        origin = value.origin if isinstance(value, (Tensor, Quantity)) else None
        if origin is None or origin.operation not in ("detach", "clone", "data", "contiguous") or not origin.operands:
            return value
        value = origin.operands[0]
    return value


def _mul(values: tuple[Value, ...]) -> Range | None:
    if len(values) < 2:
        return None
    first, second = map(range_of, values[:2])
    if any(each is not None and each.is_always(0) for each in (first, second)):
        return ZERO
    if same(*values[:2]):
        return squared(ANY if first is None and _is_held(values[0]) else first)
    if first is None or second is None:
        return None
    return first * second


def _div(values: tuple[Value, ...]) -> Range | None:
    if len(values) < 2:
        return None
    dividend, divisor = map(range_of, values[:2])
    if dividend is None:
        return None
    if dividend.is_always(0):
        return ZERO
    factor = inverse(divisor) if divisor is None or divisor.high > 0 else None
    return dividend * factor if factor is not None else None


def _pow(values: tuple[Value, ...]) -> Range | None:
    if len(values) < 2:
        return None
    base, power = range_of(values[0]), range_of(values[1])
    if power is None or power.low != power.high:
        return POSITIVE if base is not None and base.nonnegative else None
    exponent = power.low
    if exponent == 0.5:
        return POSITIVE if base is None else base.mapped(root) if base.nonnegative else None
    if base is None and _is_held(values[0]):
        base = ANY
    if exponent == 2:
        return squared(base)
    if exponent <= 0:
        return POSITIVE if (base is not None and base.nonnegative) or exponent % 2 == 0 else None
    if exponent % 2 == 0:
        base = NONNEGATIVE if base is None else base.magnitudes()
    return base.mapped(lambda x: x**exponent) if base is not None and base.nonnegative else None


def _product_of_matrices(values: tuple[Value, ...]) -> Range | None:
    first, second = [*map(range_of, values[:2]), None, None][:2]
    if first is None or second is None or not (first.nonnegative and second.nonnegative):
        return None
    return NONNEGATIVE if first.picked().reach(0) or second.picked().reach(0) else POSITIVE


# -- operations that choose -------------------------------------------------------------------------------------


def _larger(values: tuple[Value, ...]) -> Range | None:
    return _bounded(values, larger_of)


def _smaller(values: tuple[Value, ...]) -> Range | None:
    return _bounded(values, smaller_of)


def _bounded(values: tuple[Value, ...], choose: Callable[[Range, Range], Range]) -> Range | None:
    """A bound of unknown amount was set with the zeros in view."""
    if len(values) < 2:
        return None
    first, second = range_of(values[0]), range_of(values[1])
    if any(isinstance(value, Number) and value.range is None for value in values[:2]):
        return ANY
    if first is None and second is None:
        return None
    return choose(first or Range(), second or Range())


def _clamp(values: tuple[Value, ...]) -> Range | None:
    """``clamp(x, min, max)``: the upper bound wins where they cross."""
    lower, upper = (*values[1:], Constant(None), Constant(None))[:2]
    tensor = values[0] if values else None
    known = range_of(tensor)
    for bound, choose in ((lower, larger_of), (upper, smaller_of)):
        if bound == Constant(None):
            continue
        limit = range_of(bound)
        if limit is None:
            known = known and (Range(known.low, known.high) if choose is larger_of else known)
        else:
            known = choose(Range() if known is None else known, limit)
    if range_of(lower) is None and lower != Constant(None):  # who clamps at self.eps has thought of it
        return POSITIVE if known is not None and known.nonnegative else ANY
    return known


def _where(values: tuple[Value, ...]) -> Range | None:
    if len(values) < 3:
        return None
    condition, chosen, other = values[:3]
    return union_of((_where_true(condition, chosen, True), _where_true(condition, other, False)))


def _masked_fill(values: tuple[Value, ...]) -> Range | None:
    if len(values) < 3:
        return None
    return union_of((_where_true(values[1], values[0], False), range_of(values[2])))


def _where_true(condition: Value, value: Value, holds: bool) -> Range | None:
    """Return the range of what is chosen where a condition holds, which may be about that very value."""
    known = range_of(value)
    origin = condition.origin if isinstance(condition, (Tensor, Quantity)) else None
    while origin is not None and origin.operation in ("bitwise_not", "logical_not") and origin.operands:
        inner, holds = origin.operands[0], not holds
        origin = inner.origin if isinstance(inner, (Tensor, Quantity)) else None
    if known is None or origin is None:
        return known
    if origin.operation in COMPARISONS and len(origin.operands) == 2:
        return refined_by(origin, value, known, holds)
    return (
        known if known.low == known.high else Range(known.low, known.high)
    )  # a mask that was made elsewhere may well choose by the value


def refined_by(origin: Origin, value: Value, known: Range, holds: bool) -> Range:
    """Return what a comparison leaves of the range of a value."""
    left, right = origin.operands
    operation = origin.operation
    bound = range_of(right)
    if not same(left, value):
        bound, operation = range_of(left), MIRRORED[operation]
        if not same(right, value):
            return Range(known.low, known.high)
    if bound is None or bound.low != bound.high:
        return Range(known.low, known.high)
    return narrowed(known, operation, bound.low, holds)


MIRRORED = {"gt": "lt", "lt": "gt", "ge": "le", "le": "ge", "eq": "eq", "ne": "ne"}
_NEGATED = {"gt": "le", "le": "gt", "ge": "lt", "lt": "ge", "eq": "ne", "ne": "eq"}


def narrowed(known: Range, operation: str, bound: float, holds: bool) -> Range:
    """Return what is left of a range where a comparison with a number came out so for all elements."""
    match operation if holds else _NEGATED[operation]:
        case "gt" | "ge" as kind:
            return known.above(bound, strictly=kind == "gt")
        case "lt" | "le" as kind:
            return known.below(bound, strictly=kind == "lt")
        case "ne":
            return known.without(bound)
        case _:
            return point(bound)


def _overwritten(values: tuple[Value, ...]) -> Range | None:
    return union_of(map(range_of, values[:2]))


def _joined(values: tuple[Value, ...]) -> Range | None:
    return range_of(values[0]) if values else None


def _accumulated(values: tuple[Value, ...]) -> Range | None:
    """``zeros.scatter_add(dim, index, source)``: what nothing is added to stays."""
    if len(values) < 4:
        return None
    base, added = range_of(values[0]), range_of(values[3])
    if base is None or added is None or not (base.nonnegative and added.nonnegative):
        return None
    return Range(base.low, math.inf, min(base.at_low, End.MAY))


_SPECIAL: dict[str, Callable[[tuple[Value, ...]], Range | None]] = {
    "add": _add,
    "sub": _sub,
    "mul": _mul,
    "div": _div,
    "pow": _pow,
    "matmul": _product_of_matrices,
    "bmm": _product_of_matrices,
    "mm": _product_of_matrices,
    "maximum": _larger,
    "minimum": _smaller,
    "clamp": _clamp,
    "clamp_min": _clamp,
    "clamp_max": lambda values: _clamp((values[0], Constant(None), *values[1:])) if values else None,
    "where": _where,
    "masked_fill": _masked_fill,
    "setitem": _overwritten,
    "copy": lambda values: range_of(values[1]) if len(values) > 1 else None,
    "cat": _joined,
    "stack": _joined,
    "scatter_add": _accumulated,
    "index_add": _accumulated,
}
