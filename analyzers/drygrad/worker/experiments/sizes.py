"""Any batch size: a module in evaluation takes one sample, or one fewer, and gives them the results they had."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import torch

from drygrad.worker import errors
from drygrad.worker.experiments.batches import Batch, mapped, require_samples
from drygrad.worker.experiments.bench import Bench, Inputs
from drygrad.worker.experiments.relation import NotTried, Relation
from drygrad.worker.experiments.trace import Step, Trace
from drygrad.worker.probe import tensors
from drygrad.worker.run import Fault, Place


class AnyBatchSize(Relation):
    """Calls a module with fewer samples."""

    code: ClassVar[str] = "DG924"
    name: ClassVar[str] = "any batch size"
    rank: ClassVar[int] = 25

    def glance(self, given: Inputs) -> None:
        """Take what a module does, or what a text says to take a batch."""
        require_samples(given)

    def examine(self, bench: Bench) -> Iterable[Fault]:
        """Yield where fewer samples fail, or lose the axis of the batch."""
        batch = Batch(bench, enlarge=False)
        if batch.size == 1:
            raise NotTried("its inputs are a single sample")
        returned, whole = batch.traced(batch.given)
        if batch.given.samples_axis is None:
            batch.results(returned)
        batch.require(whole)
        for size in dict.fromkeys((batch.size - 1, 1)):
            fault = _Fewer(batch, whole, size).fault(returned)
            if fault is not None:
                yield fault
                return


class _Fewer:
    """A call with fewer samples, beside the one with all of them."""

    def __init__(self, batch: Batch, whole: Trace, size: int) -> None:
        self._batch = batch
        self._bench = batch.bench
        self._size = size
        self._samples = "one sample" if size == 1 else f"{size} samples"
        self._trace = Trace(self._bench.run)
        self._bench.listen(self._trace)
        with torch.no_grad():
            self._called = self._bench.call(fewer(batch.given, size))
        known = {step.key: step for step in self._trace.steps}
        self._steps = [(step, known[step.key]) for step in whole.steps if step.key in known]

    def fault(self, returned: Any) -> Fault | None:
        """Return what is wrong with so many samples."""
        if self._called.error is not None:
            return self._refused(self._called.error)
        pairs = [(a, b) for a, b in zip(tensors(returned), tensors(self._called.returned)) if self._is_lost(a, b)]
        if not pairs:
            return None
        place = next(
            (self._line(one) for one, other in self._steps if any(map(_lacks, one.results, other.results))), None
        )
        if place is None:
            raise NotTried(f"with {self._samples} a result loses dimensions, but not at a line of the program")
        shapes = " instead of ".join(str(list(tensor.shape)) for tensor in pairs[0][::-1])
        return Fault(
            AnyBatchSize.code,
            f"with {self._samples} the batch dimension is lost here: it returns {shapes}",
            place,
            severity=self._batch.severity,
        )

    def _refused(self, error: BaseException) -> Fault:
        """Return the fault of an error that fewer samples end in. Raises NotTried where it says nothing of sizes."""
        said = errors.first_line(error)
        at = self._called.place
        if at is None or errors.outcome_of(error, self._bench.run) != "failed":
            raise NotTried(f"with {self._samples} it cannot run: {said}")
        given = tensors((self._batch.given.positional, self._batch.given.named))
        if all(tensor.dim() <= 1 for tensor in given):
            raise NotTried(
                f"its inputs have one dimension, which may count features, and with {self._samples} it cannot run"
            )
        if isinstance(error, (AssertionError, NotImplementedError)):
            raise NotTried(f"with {self._samples} it raises its own error: {said}")
        what = errors.shortened(f"{type(error).__name__}: {said}", 160)
        place = next((self._line(one) for one, other in self._steps if self._stays(one, other)), None)
        if place is None or place[:2] == at[:2]:
            message = f"with {self._samples} instead of {self._batch.size} it fails here: {what}"
            return Fault(AnyBatchSize.code, message, at, errors.text_of(error), severity=self._batch.severity)
        message = f"with {self._samples} this still produces {self._batch.size} of them: {what}"
        return Fault(
            AnyBatchSize.code,
            message,
            place,
            errors.text_of(error),
            related=[("it fails here", at)],
            severity=self._batch.severity,
        )

    def _is_lost(self, one: torch.Tensor, other: torch.Tensor) -> bool:
        """Say whether a result that had the batch in front has fewer axes now."""
        return tuple(one.shape[:1]) == (self._batch.size,) and _lacks(one, other)

    def _stays(self, one: Step, other: Step) -> bool:
        """Say whether an operation makes as many samples of fewer as it made of all."""
        before = self._batch.size
        made = any(tuple(a.shape[:1]) == tuple(b.shape[:1]) == (before,) for a, b in zip(one.results, other.results))
        return made and any(shape[:1] == (self._size,) for shape in other.shapes)

    def _line(self, step: Step) -> Place | None:
        return self._bench.run.lines.place(step.instruction)


def _lacks(one: torch.Tensor, other: torch.Tensor) -> bool:
    return other.dim() < one.dim()


def fewer(given: Inputs, size: int) -> Inputs:
    """Return the inputs with the first samples alone."""

    def part(tensor: torch.Tensor) -> torch.Tensor:
        return tensor[:size].clone()

    return mapped(given, part)
