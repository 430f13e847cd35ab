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
_LINEAR = frozenset({"Add", "Sub", "Neg", "Mean", "Sum", "ToCopy", "Squeeze", "Unsqueeze", "View", "Mul", "Div"})
_NODES = 256


class Terms(Instrument):
    """Remembers sums of numbers of which one is such a constant, and reports those that a backward pass begins with."""

    name: ClassVar[str] = "terms"

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._next_number: Any = torch._C._autograd._get_sequence_nr  # pyright: ignore
        self._sums: dict[int, tuple[Cut, Place | None]] = {}
        self._switched: dict[int, tuple[Place, Place | None]] = {}
        """Sums with a constant that a function without gradients has computed, by their nodes' numbers."""

    def wants(self, hook: str, func: Any, phase: str) -> bool:
        """Ask for sums of the forward pass."""
        return phase == "forward" and func._schema.name in _SUMS

    def after_op(self, op: Op, result: Any) -> None:
        """Remember a sum of two numbers of which one has a graph and the other has left its own."""
        if len(op.args) < 2 or not torch.is_grad_enabled():
            return
        terms: tuple[Any, ...] = op.args[:2]
        first, second = terms
        if not isinstance(first, torch.Tensor) or not isinstance(second, torch.Tensor):
            return
        cut = self.run.cut_of(second if first.requires_grad else first)
        if cut is None or first.requires_grad == second.requires_grad:
            return
        if not cut.recording:
            self._of_function(op, cut)
        elif not any(term.dim() for term in terms) and (cut.op == GRADIENT or cut.op in _WITHOUT_GRADIENT):
            self._sums[self._next_number() - 1] = cut, self.run.lines.place(op.instruction)

    def _of_function(self, op: Op, cut: Cut) -> None:
        """Remember a sum with what a function that is marked as one without gradients has made of computed values."""
        departure = self.run.left_at(cut.lost_at)
        if departure is None or not departure.switch:
            return
        source = self.run.lines.source(departure.place.path)
        if source is not None and source[departure.place.line - 1].lstrip().startswith("@"):
            self._switched[self._next_number() - 1] = departure.place, self.run.lines.place(op.instruction)

    def backward_begins(self, roots: tuple[Any, ...], place: Place | None) -> None:
        """Report the constants among the terms of what goes backward."""
        self._report_switched(roots)
        waiting, seen = [root.grad_fn for root in roots] if self._sums else [], 0
        while waiting and seen < _NODES:
            node, seen = waiting.pop(), seen + 1
            if node is not None and node.name().startswith(_TO_SUM):
                found = self._sums.pop(node._sequence_nr(), None)
                if found is not None:
                    self.run.report(self._fault(*found))
                waiting.extend(following for following, _ in node.next_functions)

    def _report_switched(self, roots: tuple[Any, ...]) -> None:
        """Report sums that nothing follows but means and constant factors: there the constant has no effect."""
        waiting: list[Any] = [root.grad_fn for root in roots] if self._switched else []
        seen = 0
        while waiting and seen < _NODES:
            node, seen = waiting.pop(), seen + 1
            if node is None:
                continue
            kind = node.name().partition("Backward")[0]
            following = [after for after, _ in node.next_functions if after is not None] if kind in _LINEAR else []
            if kind in ("Mul", "Div") and len(following) > 1:
                continue
            found = self._switched.pop(node._sequence_nr(), None)
            if found is not None:
                sentence = "this loss term trains nothing: gradients are disabled here for what it is computed from"
                related = [("the term is added to the loss here", found[1])] if found[1] is not None else []
                self.run.report(Fault("DG117", sentence, found[0], related=related, facts={"cut": "switch"}))
            waiting.extend(following)

    def _fault(self, cut: Cut, sum_at: Place | None) -> Fault:
        lines = self.run.lines
        at, written = lines.place(cut.instruction), spelled(lines, cut.instruction, cut.op)
        reason = "records no graph without create_graph=True" if cut.op == GRADIENT else "has no gradient"
        sentence = f"this loss term trains nothing: {written} {reason}, and the term is computed from it"
        related = [("the term is added to the loss here", sum_at)] if sum_at is not None and sum_at != at else []
        return Fault(
            "DG116" if cut.op == GRADIENT else "DG117", sentence, at or sum_at, related=related, facts={"cut": cut.op}
        )
