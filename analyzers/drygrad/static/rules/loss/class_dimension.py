"""Where class scores stand among the dimensions of a loss's input."""

from __future__ import annotations

from drygrad.static.facts.shapes.core import may_equal
from drygrad.static.facts.values import Dim, Shape, TorchCall
from drygrad.static.rules.loss.pairs import Sized


def classes_last(call: TorchCall, given: Sized, target: Sized) -> bool:
    """Say whether the input has its classes last, (N, T, C), where the loss takes them second, (N, C, T)."""
    shape = given.shape
    if call.operation not in ("cross_entropy", "nll_loss") or len(shape) < 3 or not may_equal(shape[:-1], target.shape):
        return False
    second_last = (shape[0], *shape[2:])
    return not may_equal(second_last, target.shape) or _named_alike(shape, target.shape)


def _named_alike(shape: Shape, target: Shape) -> bool:
    """Say whether the sizes that both name show which dimensions they share: all of the input's but the last."""
    return any(map(_same_name, shape[1:-1], target[1:])) and not all(map(_may_be_named, shape[2:], target[1:]))


def _same_name(first: Dim, second: Dim) -> bool:
    return isinstance(first, str) and first == second


def _may_be_named(first: Dim, second: Dim) -> bool:
    return first is None or second is None or first == second
