"""Integers of eight bits that wrap around: the difference of two images, the sum of two counts."""

from __future__ import annotations

from typing import Any, Callable, ClassVar

import torch

from drygrad.worker.naming import call_here
from drygrad.worker.reading import is_readable, quietly
from drygrad.worker.run import Fault, Instrument, Run
from drygrad.worker.watch import Op

_MOST = 100
_LARGEST = 1 << 22
_EXACT: dict[str, Callable[..., torch.Tensor]] = {
    "aten::sub": torch.sub,
    "aten::sub_": torch.sub,
    "aten::rsub": torch.rsub,
    "aten::add": torch.add,
    "aten::add_": torch.add,
    "aten::mul": torch.mul,
    "aten::mul_": torch.mul,
}
_SIGNS = {"sub": "-", "rsub": "-", "add": "+", "mul": "*"}


class Integers(Instrument):
    """Computes sums, differences and products of uint8 tensors in more bits, too, and compares."""

    name: ClassVar[str] = "integers"

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._looks = 0

    def wants(self, hook: str, func: Any, phase: str) -> bool:
        """Ask for arithmetic of the forward pass."""
        return phase == "forward" and func._schema.name in _EXACT

    def before_op(self, op: Op) -> None:
        """Look at arithmetic of uint8 tensors alone."""
        tensors = op.tensors()
        if not tensors or tensors[0].dtype is not torch.uint8 or any(t.dtype is not torch.uint8 for t in tensors):
            return  # the first alone tells of most
        numbers = [value for value in op.args if isinstance(value, (int, float)) and not isinstance(value, bool)]
        if any(isinstance(number, float) for number in numbers) or not all(map(is_readable, tensors)):
            return
        self._looks += 1
        if self._looks <= _MOST and max(t.numel() for t in tensors) <= _LARGEST:
            self._compare(op)

    def _compare(self, op: Op) -> None:
        with quietly():
            wide = [value.to(torch.int32) if isinstance(value, torch.Tensor) else value for value in op.args]
            exact = _EXACT[op.name](*wide, **op.kwargs)
            outside = (exact < 0) | (exact > 255)
            count = int(outside.sum())
            if not count:
                return
            first = int(exact[outside].flatten()[0]) if exact.dim() else int(exact)
        call = call_here(self.run)
        if call is None or call.place is None:
            return
        message = (
            f"uint8 wraps around at {count} of {exact.numel()} positions: a {_SIGNS[op.name[6:].rstrip('_')]} b is "
            f"{first} there and becomes {first % 256}"
        )
        self.run.report(Fault("DG413", message, call.place, facts={"count": count}))
