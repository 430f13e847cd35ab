"""Where infinity was written as a number: a mask of -inf is intended, and yet the cause where NaN is made of it."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import torch

from drygrad.worker.lines import Instruction
from drygrad.worker.reading import address_of, is_readable, quietly
from drygrad.worker.watch import Op

WRITING = frozenset(
    f"aten::{name}"
    for name in (
        "copy_ fill fill_ full full_like index_fill index_fill_ index_put index_put_ masked_fill masked_fill_ new_full "
        "where"
    ).split()
)
"""Operations that put a number where the user wants it."""


class _Written(NamedTuple):
    """The line that wrote an infinity, and how many were written before it."""

    turn: int
    at: Instruction


class Infinities:
    """Follows by its memory what holds an infinity that the user has written, or was computed of such a tensor."""

    def __init__(self) -> None:
        self._written: dict[int, _Written] = {}
        self._turn = 0

    def follow(self, op: Op, result: torch.Tensor, *, writes: bool) -> None:
        """Remember of a result that may be infinite who has written that: the operation, or the latest before it."""
        if writes and op.instruction is not None and _gives_infinity(op):
            self._turn += 1
            self._written[address_of(result)] = _Written(self._turn, op.instruction)
        elif self._written:
            before = self._latest(op.tensors())
            if before is not None:
                self._written[address_of(result)] = before

    def forget(self, tensor: torch.Tensor) -> None:
        """Hear that all values of a tensor are finite now."""
        if self._written:
            self._written.pop(address_of(tensor), None)

    def behind(self, tensors: Iterable[torch.Tensor]) -> Instruction | None:
        """Return the line that has last written an infinity which is still in one of these tensors."""
        if not self._written:
            return None
        latest = self._latest(t for t in tensors if t.is_floating_point() and is_readable(t) and _is_infinite(t))
        return latest.at if latest is not None else None

    def _latest(self, tensors: Iterable[torch.Tensor]) -> _Written | None:
        found = (self._written.get(address_of(t)) for t in tensors)
        return max((w for w in found if w is not None), default=None, key=lambda w: w.turn)


def _gives_infinity(op: Op) -> bool:
    """Say whether a number that the operation is given is infinite, be it one that torch has put into a tensor."""
    given = (*op.args, *op.kwargs.values())
    if any(isinstance(value, float) and math.isinf(value) for value in given):
        return True
    numbers = (t for t in op.tensors() if t.is_floating_point() and not t.requires_grad and is_readable(t))
    return any(not number.dim() and _is_infinite(number) for number in numbers)


def _is_infinite(tensor: torch.Tensor) -> bool:
    with quietly():
        return bool(torch.isinf(tensor).any())
