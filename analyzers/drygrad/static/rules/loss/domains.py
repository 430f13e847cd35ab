"""What domain a tensor is in: scores, probabilities or their logarithms.

A tensor is in the domain that its last operation put it in, however that is spelled and wherever it stands. What is
computed step by step (a quotient of exponentials) counts as the operation that it amounts to.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace

from drygrad.static.facts.values import (
    Constant,
    Number,
    Origin,
    Quantity,
    Sequence,
    Tensor,
    Value,
    element_of,
)
from drygrad.static.rules.loss.origins import LOGITS, maker

PROBABILITIES = frozenset({"softmax", "sigmoid"})
LOGARITHMS = frozenset({"log_softmax", "logsigmoid"})
_KEEPS = {
    **dict.fromkeys(
        "mean avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d interpolate "
        "cat stack narrow select index_select masked_select gather chunk split unbind repeat roll flip".split(),
        LOGITS | PROBABILITIES,
    ),
    **dict.fromkeys("add sub mul div neg batch_norm layer_norm group_norm instance_norm masked_fill".split(), LOGITS),
    **dict.fromkeys(("clamp", "clamp_min"), PROBABILITIES),
}
"""What leaves its operands in their domain, and which domains."""
_POWERS = {"log_softmax": "softmax", "logsigmoid": "sigmoid"}
_LOGARITHMS = {"softmax": "log_softmax", "sigmoid": "logsigmoid"}
PRODUCTS = frozenset({"matmul", "mm", "bmm"})
_DISTRIBUTIONS = frozenset({"one_hot", "softmax"})


@dataclass(frozen=True)
class Made:
    """The operation that put a tensor into its domain, by the name of what it amounts to.

    ``direct`` says that it is spelled as one operation, and that nothing was computed from its result since.
    """

    operation: str
    origin: Origin
    direct: bool = True

    @property
    def before(self) -> Made | None:
        """What put the operation's own operand into its domain."""
        return made(self.origin.operands[0]) if self.origin.operands else None

    def is_like(self, other: Made | None) -> bool:
        """Say whether another tensor is in the same domain."""
        return other is not None and (other.operation == self.operation or {other.operation, self.operation} <= LOGITS)


def made(value: Value | None) -> Made | None:
    """Return what put a value into its domain; None where paths differ or nobody knows."""
    origin = maker(value) if isinstance(value, Tensor) else None
    if origin is None:
        return None
    if origin.operation in _KEEPS:
        parts = [made(part) for part in _parts(origin)]
        first = parts[0] if parts else None
        if first is not None and first.operation in _KEEPS[origin.operation] and all(map(first.is_like, parts)):
            return replace(first, direct=False)
    name = _by_hand(origin)
    return Made(name or origin.operation, origin, direct=name is None)


def _parts(origin: Origin) -> Iterator[Value]:
    """Yield the tensors that a result consists of; numbers and parameters only scale or shift the others."""
    first = origin.operands[0] if origin.operands else None
    if isinstance(first, Sequence):
        yield from first.items if first.items is not None else (element_of(first),)
    elif origin.operation in ("add", "sub", "mul", "div"):
        yield from (part for part in origin.operands if not _only_scales(part))
    elif first is not None:
        yield first


def _only_scales(value: Value) -> bool:
    return isinstance(value, (Constant, Number)) or (isinstance(value, Tensor) and value.parameter)


def _by_hand(origin: Origin) -> str | None:
    """Name the operation that several steps amount to."""
    first = made(origin.operands[0]) if origin.operands else None
    match origin:
        case Origin(operation="exp" | "log" as operation) if first is not None:
            return (_POWERS if operation == "exp" else _LOGARITHMS).get(first.operation)
        case Origin(operation="div", operands=(above, Tensor() as below)):
            total = maker(below)
        case Origin(operation=operation, operands=(_, Tensor() as rows)) if operation in PRODUCTS:
            return "softmax" if first is not None and _is_mixture(first, rows) else None
        case _:
            return None
    match total:
        case Origin(operation="sum", operands=(summed, *_)) if first is not None and first.operation == "exp":
            return "softmax" if _is_same(first.origin, summed) else None
        case Origin(operation="add", operands=(Constant(value=1), power) | (power, Constant(value=1))):
            return "sigmoid" if above == Constant(1) and _is_negative_power(power) else None
        case _:
            return None


def _is_mixture(weights: Made, rows: Tensor) -> bool:
    """Say whether the weights of a softmax mix rows that are distributions: attention over labelled examples does."""
    call, mixed = weights.origin.call, made(rows)
    over_last = call is not None and weights.direct and call.value("dim") in (Constant(-1), Constant(1))
    return weights.operation == "softmax" and over_last and mixed is not None and mixed.operation in _DISTRIBUTIONS


def _is_same(origin: Origin, value: Value) -> bool:
    """Say whether a value is what an operation made, or made by the same words."""
    other = maker(value) if isinstance(value, Tensor) else None
    return other is not None and (other == origin or ast.dump(other.node) == ast.dump(origin.node))


def _is_negative_power(value: Value) -> bool:
    """Say whether a value is ``exp(-x)``."""
    match value:
        case Tensor(
            origin=Origin(operation="exp", operands=(Tensor(origin=Origin() as exponent) | Quantity(origin=exponent),))
        ):
            return exponent is not None and exponent.operation == "neg"
        case _:
            return False
