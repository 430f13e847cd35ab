"""Losses that get probabilities where they want logits or log-probabilities."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import torch

from drygrad.worker.ledger import Origin
from drygrad.worker.naming import Call, call_here
from drygrad.worker.reading import extremes, is_plain
from drygrad.worker.run import Fault, Instrument
from drygrad.worker.watch import Op


class _Loss(NamedTuple):
    """A loss, the activation that must not stand before it, and why."""

    function: str
    activation: str
    code: str
    why: str


_LOSSES = {
    "aten::_log_softmax": _Loss("cross_entropy", "softmax", "DG304", "cross_entropy applies log_softmax itself"),
    "aten::binary_cross_entropy_with_logits": _Loss(
        "binary_cross_entropy_with_logits",
        "sigmoid",
        "DG305",
        "binary_cross_entropy_with_logits applies sigmoid itself",
    ),
    "aten::nll_loss_forward": _Loss("nll_loss", "softmax", "DG308", "nll_loss takes log-probabilities"),
    "aten::nll_loss2d_forward": _Loss("nll_loss", "softmax", "DG308", "nll_loss takes log-probabilities"),
    "aten::xlogy": _Loss("kl_div", "softmax", "DG311", "kl_div takes log-probabilities as its input"),
}
"""By the operation that each of them begins with."""


class Activations(Instrument):
    """Finds them by what made the values of a loss's input, wherever in the program that was."""

    name: ClassVar[str] = "activations"

    def wants(self, hook: str, func: Any) -> bool:
        """Ask for what losses begin with."""
        return func._schema.name in _LOSSES

    def before_op(self, op: Op) -> None:
        """Look at what a loss is given."""
        loss = _LOSSES.get(op.name)
        call = call_here(self.run) if loss is not None and op.phase == "forward" else None
        if loss is None or call is None or loss.function not in (frame.f_code.co_name for frame in call.inner):
            return
        given = next(iter(call.local("input")), None)
        if not isinstance(given, torch.Tensor) or not is_plain(given):
            return
        origin = self.run.origin_of(given)
        if (
            origin is not None
            and origin.op in (f"aten::{loss.activation}", f"aten::_{loss.activation}")
            and _are_probabilities(given)
        ):
            self._report(loss, call, origin)

    def _report(self, loss: _Loss, call: Call, origin: Origin) -> None:
        """Report a loss, at the activation where that is in another function: it is what has to go."""
        made = origin.instruction
        there = self.run.lines.place(made) if made is not None else None
        message = f"{loss.why}; here it gets the result of {loss.activation}"
        related = [(f"{loss.activation} is applied here", there)] if there is not None and there != call.place else []
        at = call.place
        if made is not None and there is not None and call.place is not None and made.code is not call.code:
            message = f"{loss.why}; it gets the result of this {loss.activation}"
            at, related = there, [(f"{loss.function} gets it here", call.place)]
        self.run.report(Fault(loss.code, message, at, related=related))


def _are_probabilities(tensor: torch.Tensor) -> bool:
    """Say whether all values lie between 0 and 1: nothing was written in place since."""
    found = extremes(tensor)
    return found is not None and found[0] >= 0 and found[1] <= 1
