"""Terms of a loss that are constants for autograd, although they were computed from what is trained (DG116, DG117)."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from typing import Any, ClassVar

import torch

from drygrad.worker.instruments.graph import GRADIENT, Cut
from drygrad.worker.run import Fault, Instrument, Place, Run
from drygrad.worker.spelling import spelled
from drygrad.worker.watch import Op

_SUMS = frozenset({"aten::add", "aten::add_", "aten::sub", "aten::sub_"})
_WITHOUT_GRADIENT = frozenset(
    f"aten::{name}" for name in "eq ne lt le gt ge argmax argmin argsort bucketize round floor ceil sign".split()
)
"""Operations that lose the graph for good, where nobody may have meant to."""
_TO_SUM = ("Add", "Sub", "Mul", "Div", "Neg", "Mean", "Sum", "ToCopy")
_NODES = 256


class Terms(Instrument):
    """Remembers sums of numbers of which one is such a constant, and reports those that a backward pass begins with."""

    name: ClassVar[str] = "terms"

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._next_number: Any = torch._C._autograd._get_sequence_nr  # pyright: ignore
        self._sums: dict[int, tuple[Cut, Place | None]] = {}

    def wants(self, hook: str, func: Any, phase: str) -> bool:
        """Ask for sums of the forward pass."""
        return phase == "forward" and func._schema.name in _SUMS

    def after_op(self, op: Op, result: Any) -> None:
        """Remember a sum of two numbers of which one has a graph and the other has left its own."""
        if len(op.args) < 2 or not torch.is_grad_enabled():
            return
        terms = [value for value in op.args[:2] if isinstance(value, torch.Tensor) and not value.dim()]
        constants = [term for term in terms if not term.requires_grad]
        if len(terms) == 2 and len(constants) == 1:
            cut = self.run.cut_of(constants[0])
            if cut is not None and cut.recording and (cut.op == GRADIENT or cut.op in _WITHOUT_GRADIENT):
                self._sums[self._next_number() - 1] = cut, self.run.lines.place(op.instruction)

    def backward_begins(self, roots: tuple[Any, ...], place: Place | None) -> None:
        """Report the constants among the terms of what goes backward."""
        waiting, seen = [root.grad_fn for root in roots] if self._sums else [], 0
        while waiting and seen < _NODES:
            node, seen = waiting.pop(), seen + 1
            if node is not None and node.name().startswith(_TO_SUM):
                found = self._sums.pop(node._sequence_nr(), None)
                if found is not None:
                    self.run.report(self._fault(*found))
                waiting.extend(following for following, _ in node.next_functions)

    def _fault(self, cut: Cut, sum_at: Place | None) -> Fault:
        lines = self.run.lines
        at, written = lines.place(cut.instruction), spelled(lines, cut.instruction, cut.op)
        reason = "records no graph without create_graph=True" if cut.op == GRADIENT else "has no gradient"
        sentence = f"a term of the loss trains nothing: {written} {reason}, and the term is computed from it"
        related = [("the term is part of the loss here", sum_at)] if sum_at is not None and sum_at != at else []
        return Fault(
            "DG116" if cut.op == GRADIENT else "DG117", sentence, at or sum_at, related=related, facts={"cut": cut.op}
        )
