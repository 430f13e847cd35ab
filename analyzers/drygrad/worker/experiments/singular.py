"""Which operations of a call are not finite everywhere: at a point, of nothing, or far out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple

import torch

from drygrad.worker.reading import extremes, is_readable, quietly
from drygrad.worker.run import Instrument, Run
from drygrad.worker.watch import Op

_AT_A_POINT = frozenset(
    f"aten::{name}"
    for name in (
        "_linalg_eigh _linalg_svd acos acosh addcdiv asin atanh div erfinv linalg_inv_ex linalg_solve_ex log log10 "
        "log1p log2 logit pow reciprocal rsqrt sqrt std std_mean true_divide var var_mean xlogy"
    ).split()
)
"""Operations whose value or slope is infinite, or none, at a finite operand."""
_OF_NOTHING = frozenset(
    f"aten::{name}"
    for name in (
        "_log_softmax _safe_softmax _softmax binary_cross_entropy binary_cross_entropy_with_logits huber_loss "
        "logsumexp mean mse_loss nll_loss2d_forward nll_loss_forward smooth_l1_loss std std_mean var var_mean "
        "scaled_dot_product_attention _scaled_dot_product_flash_attention_for_cpu"
    ).split()
)
"""Operations that have no value where they are given nothing, or nothing but what is masked."""
_FAR_OUT = frozenset(f"aten::{name}" for name in "_softmax cosh erf exp exp2 expm1 sigmoid sinh softplus tanh".split())
"""Operations that overflow, or come to 0 or 1 exactly, at operands of some ten or hundred."""
_COMPARISONS = frozenset(f"aten::{name}" for name in "eq ge gt le lt ne".split())
_MOST_COMPARED, _LARGEST_COMPARED = 16, 1 << 14


class Compared(NamedTuple):
    """Integers that the target has compared, as a mask is made: ids with padding, lengths with positions."""

    values: torch.Tensor
    """Flat: the target may have added dimensions."""
    number: int | None
    """What each was compared with; None for other tensors."""


_OF_INTEREST = _AT_A_POINT | _OF_NOTHING | _FAR_OUT | _COMPARISONS


class Singular(Instrument):
    """Takes note of the operations of the forward pass that have such points."""

    name: ClassVar[str] = "singular"

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.at_a_point = self.of_nothing = False
        self.reached = 0.0
        """The greatest operand of an operation that is singular far out."""
        self.ignored: set[int] = set()
        """The classes that losses pass over."""
        self.compared: list[Compared] = []

    def wants(self, hook: str, func: Any, phase: str) -> bool:
        """Ask for the operations of these kinds."""
        name = func._schema.name.rstrip("_")
        return phase == "forward" and name in _OF_INTEREST

    def before_op(self, op: Op) -> None:
        """Take note of an operation."""
        name = op.name.rstrip("_")
        self.at_a_point |= name in _AT_A_POINT and _is_singular(name, op.args)
        self.of_nothing |= name in _OF_NOTHING
        if name in _FAR_OUT and isinstance(op.args[0], torch.Tensor) and op.args[0].is_floating_point():
            both = extremes(op.args[0])
            self.reached = max(self.reached, *map(abs, both)) if both else self.reached
        if name.startswith("aten::nll_loss"):
            self.ignored.add(int(op.argument("ignore_index")))
        if name in _COMPARISONS and len(self.compared) < _MOST_COMPARED:
            self.compared += _compared(*op.args[:2])


def _is_singular(name: str, args: tuple[Any, ...]) -> bool:
    """Say whether an operation has such a point with these operands: a division by a number has none."""
    if name in ("aten::div", "aten::true_divide"):
        return isinstance(args[1], torch.Tensor)
    if name == "aten::pow":
        exponent = args[1]
        return isinstance(exponent, torch.Tensor) or exponent < 1 or exponent != int(exponent)
    return True


def _compared(one: Any, other: Any) -> Iterator[Compared]:
    if isinstance(other, torch.Tensor) and not other.dim() and _is_of_integers(other):
        with quietly():
            other = int(other)
    if isinstance(other, torch.Tensor):
        pair = (one, other) if one.shape != other.shape else ()
        yield from (Compared(_flat(each), None) for each in pair if _is_of_integers(each))
    elif isinstance(other, int) and _is_of_integers(one):
        yield Compared(_flat(one), other)


def _is_of_integers(tensor: torch.Tensor) -> bool:
    kept = is_readable(tensor) and tensor.numel() <= _LARGEST_COMPARED
    return kept and not (tensor.dtype is torch.bool or tensor.is_floating_point() or tensor.is_complex())


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    with quietly():
        return tensor.detach().flatten().clone()
