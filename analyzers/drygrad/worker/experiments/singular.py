"""Which operations of a call are not finite everywhere: at a point, of nothing, or far out."""

from __future__ import annotations

from typing import Any, ClassVar

import torch

from drygrad.worker.reading import extremes
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

    def wants(self, hook: str, func: Any, phase: str) -> bool:
        """Ask for the operations of these kinds."""
        name = func._schema.name.rstrip("_")
        return phase == "forward" and (name in _AT_A_POINT or name in _OF_NOTHING or name in _FAR_OUT)

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


def _is_singular(name: str, args: tuple[Any, ...]) -> bool:
    """Say whether an operation has such a point with these operands: a division by a number has none."""
    if name in ("aten::div", "aten::true_divide"):
        return isinstance(args[1], torch.Tensor)
    if name == "aten::pow":
        exponent = args[1]
        return isinstance(exponent, torch.Tensor) or exponent < 1 or exponent != int(exponent)
    return True
