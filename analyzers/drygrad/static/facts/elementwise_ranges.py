"""Between which numbers an elementwise function of one operand brings elements that lie in a range."""

from __future__ import annotations

import math
from collections.abc import Callable

from drygrad.static.facts.interval import (
    ANY,
    AROUND_ZERO,
    NONNEGATIVE,
    POSITIVE,
    PROBABILITY,
    UNIT,
    ZERO,
    End,
    Range,
    point,
)

COMPARISONS = frozenset({"gt", "ge", "lt", "le", "eq", "ne"})
_TRUTHS = COMPARISONS | frozenset(
    "isnan isfinite isinf isclose isin logical_and logical_or logical_not logical_xor".split()
)
_PROBABILITIES = frozenset("softmax rand rand_like".split())
"""Operations whose result lies between 0 and 1, which only rounding reaches."""
_COUNTS = frozenset("count_nonzero bincount histc argmax argmin argsort multinomial randperm".split())
_SPREADS = frozenset("std var".split())
_ERRORS = frozenset("mse_loss l1_loss smooth_l1_loss huber_loss".split())
_LOSSES = frozenset("cross_entropy nll_loss binary_cross_entropy binary_cross_entropy_with_logits".split())
_POSITIVE = frozenset("exp2 softplus".split())


def root(number: float) -> float:
    """Return the square root; 0 for what has none."""
    return math.sqrt(number) if number > 0 else 0.0


def _logarithm(number: float) -> float:
    return math.log(number) if number > 0 else -math.inf


GROWING: dict[str, tuple[Callable[[float], float], Range | None]] = {
    "sqrt": (root, POSITIVE),
    "log1p": (lambda x: math.log1p(x) if x > -1 else -math.inf, None),
    "expm1": (math.expm1, Range(-1.0, at_low=End.MAY)),
    "exp": (math.exp, POSITIVE),
    "atan": (math.atan, None),
    "asinh": (math.asinh, None),
    "log": (_logarithm, None),
    "ceil": (lambda x: math.ceil(x) if math.isfinite(x) else x, None),
    "deg2rad": (math.radians, None),
}
"""Functions that grow, with the range of their result where that of the operand is unknown."""


def _spread(given: Range | None) -> Range:
    return ZERO if given is not None and given.low == given.high else NONNEGATIVE


def _relu(given: Range | None) -> Range:
    return NONNEGATIVE if given is None else larger_of(given, ZERO)


def _saturating(function: Callable[[float], float]) -> Callable[[Range | None], Range]:
    """A function that rounding brings to its limits."""

    def image(given: Range | None) -> Range:
        known = (given or ANY).mapped(function)
        low_reached = given is None or given.low == -math.inf
        high_reached = given is None or given.high == math.inf
        at_low, at_high = End.ROUNDED if low_reached else known.at_low, End.ROUNDED if high_reached else known.at_high
        return Range(known.low, known.high, at_low, at_high)

    return image


def squared(given: Range | None) -> Range:
    """Return the range of squares."""
    return NONNEGATIVE if given is None else (m := given.magnitudes()) * m


def inverse(given: Range | None) -> Range | None:
    """At 0 the quotient is NaN or infinite; the range says what the other elements are."""
    if given is None or not given.nonnegative or given.is_always(0):
        return None
    if given == ANY:
        return ANY
    if given.low == given.high:
        return point(1 / given.low)
    low = 0.0 if given.high == math.inf else 1 / given.high
    return Range(low, math.inf if given.low == 0 else 1 / given.low, given.at_high if low else End.OPEN)


def larger_of(first: Range, second: Range) -> Range:
    """Return the range of the larger of two numbers."""
    low, high = max(first.low, second.low), max(first.high, second.high)
    at_low = min(each.at_low for each in (first, second) if each.low == low)
    at_high = max(each.at_high for each in (first, second) if each.high == high)
    return Range(low, high, min(at_low, End.MAY) if low != high else at_low, at_high)


def smaller_of(first: Range, second: Range) -> Range:
    """Return the range of the smaller of two numbers."""
    return -larger_of(-first, -second)


UNARY: dict[str, Callable[[Range | None], Range | None]] = {
    **dict.fromkeys(_POSITIVE, lambda _: POSITIVE),
    **dict.fromkeys(_PROBABILITIES, lambda _: PROBABILITY),
    **dict.fromkeys(_TRUTHS | {"hardsigmoid", "bernoulli"}, lambda _: UNIT),
    **dict.fromkeys(_COUNTS | _ERRORS, lambda _: NONNEGATIVE),
    **dict.fromkeys(_LOSSES, lambda _: POSITIVE),
    **dict.fromkeys(_SPREADS, _spread),
    **dict.fromkeys(("sin", "cos", "cosine_similarity", "sinc"), lambda _: AROUND_ZERO),
    **dict.fromkeys(("log_softmax", "logsigmoid"), lambda _: Range(high=0.0, at_high=End.MAY)),
    "cosh": lambda _: Range(1.0, at_low=End.MAY),
    "one_hot": lambda _: Range(0.0, 1.0, End.SURE, End.SURE),
    "sigmoid": _saturating(lambda x: 1 / (1 + math.exp(-x))),
    "tanh": _saturating(math.tanh),
    "erf": _saturating(math.erf),
    "neg": lambda given: None if given is None else -given,
    "abs": lambda given: NONNEGATIVE if given is None else given.magnitudes(),
    "square": squared,
    "relu": _relu,
    "relu6": lambda given: smaller_of(_relu(given), point(6)),
    "hardtanh": lambda _: AROUND_ZERO,
    "prod": lambda given: given * Range(0.0) if given is not None and given.nonnegative else None,
    "cumprod": lambda given: given * Range(0.0) if given is not None and given.nonnegative else None,
    "rsqrt": lambda given: inverse(None if given is None else given.mapped(root)) or POSITIVE,
    "reciprocal": inverse,
}
"""The range of the result from that of the one operand."""
