"""Samples stand alone: in evaluation, what a sample comes to does not depend on the others of its batch."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, ClassVar

import torch

from drygrad.worker.experiments.batches import Batch, mapped, require_samples
from drygrad.worker.experiments.bench import Bench, Inputs
from drygrad.worker.experiments.relation import NotTried, Relation
from drygrad.worker.experiments.trace import Part, Trace, agree, first_parting
from drygrad.worker.run import Fault

_OTHER = 3
_IN_NAMES = re.compile(
    r"batch|contrast|mixup|cutmix|shuffl|permut|whiten|sinkhorn|rank|negative|triplet|pair|advantage|normali[sz]e|"
    r"standardi[sz]e|queue|memory|cluster|assign"
)
_IN_TEXTS = re.compile(
    r"in-batch|batch statistics|other samples|negatives|"
    r"(across|over|within|of) (the|a|each|all) (whole )?(mini-?)?(batch|samples)"
)
"""What speaks of samples that are meant to meet."""


class SamplesStandAlone(Relation):
    """Changes one sample, and compares what the others come to."""

    code: ClassVar[str] = "DG923"
    name: ClassVar[str] = "samples stand alone"
    rank: ClassVar[int] = 20

    def glance(self, given: Inputs) -> None:
        """Take what a module does, or what a text says to take a batch."""
        require_samples(given)

    def examine(self, bench: Bench) -> Iterable[Fault]:
        """Yield the first operation that lets one sample change another."""
        batch, returned, before = _widest(bench)
        results = batch.results(returned)
        batch.require(before)
        if batch.severity == "info":
            _require_separate(bench, batch.given)
        for rows, kept in ((slice(0, 1), batch.others), (slice(1, None), batch.first)):
            changed, after = batch.traced(with_others_at(batch.given, rows))
            if not all(agree(one, other, kept) for one, other in zip(results, batch.results(changed))):
                yield _mixing(batch, before, after, kept)
                return


def _require_separate(bench: Bench, given: Inputs) -> None:
    """Raise NotTried where a target says that it works on a batch as a whole."""
    documented: tuple[Any, ...] = (given.function, *([type(given.owner)] if given.owner is not None else []))
    texts = [str(getattr(each, "__doc__", None) or "") for each in documented]
    if _IN_NAMES.search(bench.target.lower()) or any(_IN_TEXTS.search(text.lower()) for text in texts):
        raise NotTried("by its name or docstring it works on the batch as a whole")


def _widest(bench: Bench) -> tuple[Batch, Any, Trace]:
    """Call the target with numbers of twice the width, or as they are; return what it gives and computes."""
    with suppress(NotTried):
        batch = Batch(bench, wide=True)
        return (batch, *batch.traced(batch.given))
    batch = Batch(bench)
    return (batch, *batch.traced(batch.given))


def _mixing(batch: Batch, before: Trace, after: Trace, kept: Part) -> Fault:
    """Return the fault of the first operation that parts what was to agree. Raises NotTried where no line has it."""
    if first_parting(before, batch.traced(batch.given)[1]) is not None:
        raise NotTried("two calls with the same inputs differ")
    number = first_parting(before, after, kept)
    if number is not None:
        number = _origin(before, after, number, batch)
    place = batch.bench.run.lines.place(before.steps[number].instruction) if number is not None else None
    if place is None:
        raise NotTried("the samples mix, but not at a line of the program")
    one, other = (0, _OTHER) if kept == batch.others else (_OTHER, 0)
    message = (
        f"in a batch of {batch.size}, sample {one} changes sample {other} here: the result of a sample depends on "
        "the others"
    )
    return Fault(SamplesStandAlone.code, message, place, severity=batch.severity)


def _origin(before: Trace, after: Trace, number: int, batch: Batch) -> int:
    """Return the step that mixes the samples: the one before, where it has left no axis of samples to tell them by."""
    known = {step.key: step for step in after.steps}
    for earlier in reversed(before.steps[number].made_of):
        step = before.steps[earlier]
        other = known.get(step.key)
        lost = other is not None and not any(batch.others(result) for result in step.results)
        if lost and other is not None and any(not agree(a, b) for a, b in zip(step.results, other.results)):
            told = any(batch.size in shape for shape in step.shapes)
            return earlier if told else _origin(before, after, earlier, batch)
    return number


def with_others_at(given: Inputs, rows: slice) -> Inputs:
    """Return the inputs with other samples in some rows: floats nearer to 0, all else as another has it."""
    generator = torch.Generator().manual_seed(1)

    def changed(tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.is_floating_point():
            tensor = tensor.clone()
            tensor[rows] = tensor.roll(-1, 0)[rows]  # the last may repeat the first
            return tensor
        drawn = torch.rand(tensor.shape, generator=generator).to(tensor)
        tensor = tensor.clone()
        tensor[rows] = (tensor * (0.25 + 0.5 * drawn))[rows]
        return tensor

    return mapped(given, changed)
