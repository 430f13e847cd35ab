"""Losses that get probabilities where they want logits or log-probabilities."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import torch

from drygrad.worker.ledger import Origin
from drygrad.worker.naming import Call, call_here
from drygrad.worker.reading import at_hand, extremes, is_plain, is_readable, quietly
from drygrad.worker.run import Fault, Instrument
from drygrad.worker.watch import Op


class _Loss(NamedTuple):
    """A loss, the activations that must not stand before it, each with the code, and why."""

    function: str
    activations: dict[str, str]
    why: str


_CUT_OFF = dict.fromkeys(("relu", "tanh"), "DG328")
_LOSSES = {
    "aten::_log_softmax": _Loss(
        "cross_entropy",
        {"softmax": "DG304", "sigmoid": "DG328", **_CUT_OFF},
        "cross_entropy applies log_softmax itself",
    ),
    "aten::binary_cross_entropy_with_logits": _Loss(
        "binary_cross_entropy_with_logits",
        {"sigmoid": "DG305", "softmax": "DG328", **_CUT_OFF},
        "binary_cross_entropy_with_logits applies sigmoid itself",
    ),
    "aten::binary_cross_entropy": _Loss(
        "binary_cross_entropy",
        {"softmax": "DG328"},
        "binary_cross_entropy expects an independent probability per label",
    ),
    "aten::nll_loss_forward": _Loss("nll_loss", {"softmax": "DG308"}, "nll_loss expects log-probabilities"),
    "aten::nll_loss2d_forward": _Loss("nll_loss", {"softmax": "DG308"}, "nll_loss expects log-probabilities"),
    "aten::xlogy": _Loss("kl_div", {"softmax": "DG311"}, "kl_div expects log-probabilities as its input"),
}
"""By the operation that each of them begins with."""
_BOUNDS = {"relu": (0.0, float("inf")), "tanh": (-1.0, 1.0)}
"""Between what the results of an activation lie, where that is not 0 and 1."""


_PROBABILITIES = "aten::binary_cross_entropy"
_SLACK = 0.5
_LOG = ("nll_loss", "log_softmax")
_NEAR = 1e-3
"""How far sums of probabilities may be from 1."""


class Activations(Instrument):
    """Finds them by what made the values of a loss's input, wherever in the program that was."""

    name: ClassVar[str] = "activations"

    def wants(self, hook: str, func: Any, phase: str) -> bool:
        """Ask for what losses begin with."""
        return phase == "forward" and func._schema.name in _LOSSES

    def before_op(self, op: Op) -> None:
        """Look at what a loss is given."""
        loss = _LOSSES.get(op.name)
        call = call_here(self.run) if loss is not None else None
        if loss is None or call is None or loss.function not in (frame.f_code.co_name for frame in call.inner):
            return
        given = next(iter(call.local("input")), None)
        if not isinstance(given, torch.Tensor) or not is_plain(given):
            return
        origin = self.run.origin_of(given)
        activation = origin.op.rpartition("::")[2].lstrip("_") if origin is not None else ""
        if op.name == _PROBABILITIES and not _several_labels(call.local("target")):
            return
        if origin is not None and (loss.function, activation) == _LOG and _is_over_batch(given):
            self._report_over_batch(call, origin)
        if origin is not None and activation in loss.activations and _are_results(given, activation):
            self._report(loss, activation, call, origin)
        elif op.name != _PROBABILITIES and "softmax" in loss.activations and _are_distributions(given):
            what = "values between 0 and 1 that sum to 1 over the classes: probabilities"
            self.run.report(Fault(loss.activations["softmax"], f"{loss.why}; here it gets {what}", call.place))

    def _report_over_batch(self, call: Call, origin: Origin) -> None:
        """Report probabilities that sum to one over the batch where they were made, if that is known."""
        there = self.run.lines.place(origin.instruction) if origin.instruction is not None else None
        message = "log_softmax over dimension 0 normalizes across the batch, not across each sample's classes"
        related = [("passed to nll_loss here", call.place)] if call.place is not None and there != call.place else []
        self.run.report(Fault("DG334", message, there or call.place, related=related if there is not None else []))

    def _report(self, loss: _Loss, activation: str, call: Call, origin: Origin) -> None:
        """Report a loss, at the activation where that is in another function: it is what has to go."""
        made, code = origin.instruction, loss.activations[activation]
        free = code != "DG328" or loss.function == "binary_cross_entropy"
        why = loss.why if free else "logits must not be restricted in range"
        there = self.run.lines.place(made) if made is not None else None
        message = f"{why}; here it gets the result of {activation}"
        related = [(f"{activation} is applied here", there)] if there is not None and there != call.place else []
        at = call.place
        if made is not None and there is not None and call.place is not None and made.code is not call.code:
            message = f"{why}; it gets the result of this {activation}"
            at, related = there, [(f"passed to {loss.function} here", call.place)]
        self.run.report(Fault(code, message, at, related=related))


def _are_results(tensor: torch.Tensor, activation: str) -> bool:
    """Say whether all values lie where an activation puts them: nothing was written in place since."""
    found, (low, high) = extremes(tensor), _BOUNDS.get(activation, (0.0, 1.0))
    return found is not None and found[0] >= low and found[1] <= high


def _are_distributions(tensor: torch.Tensor) -> bool:
    """Say whether what a model computed are probabilities of the classes, whatever operation made them so."""
    classes = 1 if tensor.dim() > 1 else 0
    if not tensor.requires_grad or not tensor.dim() or tensor.shape[classes] < 2 or not is_readable(tensor):
        return False
    if not _are_results(tensor, "softmax"):
        return False
    with quietly():
        return bool((at_hand(tensor).double().sum(classes) - 1).abs().max() < _NEAR)


def _several_labels(found: list[Any]) -> bool:
    """Say whether a target has rows whose labels do not sum to one, as probabilities of a softmax do."""
    target = found[0] if found else None
    if not isinstance(target, torch.Tensor) or not is_readable(target) or target.dim() < 2 or target.shape[-1] < 2:
        return False
    with quietly():
        return bool((at_hand(target).sum(-1) - 1).abs().max() > _SLACK)


def _is_over_batch(tensor: torch.Tensor) -> bool:
    """Say whether the probabilities behind logarithms sum to one over the samples, and not over the classes."""
    if tensor.dim() != 2 or min(tensor.shape) < 2 or not is_readable(tensor):
        return False
    with quietly():
        chances = at_hand(tensor).double().exp()
        over_batch, over_classes = ((chances.sum(dim) - 1).abs() for dim in (0, 1))
        return bool(over_batch.max() < _NEAR and over_classes.max() > _NEAR)
