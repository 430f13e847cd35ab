"""Softmax, its logarithm and argmax over the one output of a layer: the result is the same for every input."""

from __future__ import annotations

from typing import Any, ClassVar

import torch

from drygrad.worker.naming import call_here
from drygrad.worker.reading import is_plain, size_text
from drygrad.worker.run import Fault, Instrument
from drygrad.worker.watch import Op

_LAYERS = {"aten::addmm": -1, "aten::convolution": 1}
"""What makes the scores, and the dimension of its outputs."""
_ALWAYS = {
    "aten::_softmax": ("softmax", "its result is always 1"),
    "aten::_log_softmax": ("log_softmax", "its result is always 0"),
    "aten::argmax": ("argmax", "its result is always 0"),
}


class SingleClass(Instrument):
    """Looks at the size of the dimension that they go over, and at what made the scores."""

    name: ClassVar[str] = "single_class"

    def wants(self, hook: str, func: Any, phase: str) -> bool:
        """Ask for what goes over classes in the forward pass."""
        return phase == "forward" and func._schema.name in _ALWAYS

    def before_op(self, op: Op) -> None:
        """Report scores of a single class."""
        scores, dim = op.args[0], op.argument("dim")
        if not isinstance(dim, int) or not is_plain(scores) or scores.dim() < 2:
            return
        if scores.shape[dim] != 1 or scores.numel() < 2:
            return
        origin = self.run.origin_of(scores)
        outputs = _LAYERS.get(origin.op) if origin is not None else None
        call = call_here(self.run) if outputs is not None and dim % scores.dim() == outputs % scores.dim() else None
        if call is None:
            return
        operation, always = _ALWAYS[op.name]
        shown = f"{call.describe(scores, 'the input')} {size_text(scores.shape)}"
        if call.function() == "cross_entropy" or isinstance((call.module() or (None,))[0], torch.nn.CrossEntropyLoss):
            operation, always = "cross_entropy", "the loss is 0"
        message = f"{operation} over one class: {shown} has a single output, so {always} for any input"
        self.run.report(Fault("DG326", message, call.place))
