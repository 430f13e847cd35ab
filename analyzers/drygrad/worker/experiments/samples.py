"""Samples stand alone: in evaluation, what a sample comes to does not depend on the others of its batch."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import torch

from drygrad.worker.experiments.batches import Batch, mapped, require_module
from drygrad.worker.experiments.bench import Bench, Inputs
from drygrad.worker.experiments.relation import NotTried, Relation
from drygrad.worker.experiments.trace import Part, Trace, agree, first_parting
from drygrad.worker.run import Fault

_OTHER = 3


class SamplesStandAlone(Relation):
    """Changes one sample, and compares what the others come to."""

    code: ClassVar[str] = "DG923"
    name: ClassVar[str] = "samples stand alone"
    rank: ClassVar[int] = 20

    def glance(self, given: Inputs) -> None:
        """Take nothing but what a module does."""
        require_module(given)

    def examine(self, bench: Bench) -> Iterable[Fault]:
        """Yield the first operation that lets one sample change another."""
        batch = Batch(bench)
        returned, before = batch.traced(batch.given)
        results = batch.results(returned)
        batch.require(before)
        for rows, kept in ((slice(0, 1), batch.others), (slice(1, None), batch.first)):
            changed, after = batch.traced(with_others_at(batch.given, rows))
            if not all(agree(one, other, kept) for one, other in zip(results, batch.results(changed))):
                yield _mixing(batch, before, after, kept)
                return


def _mixing(batch: Batch, before: Trace, after: Trace, kept: Part) -> Fault:
    """Return the fault of the first operation that parts what was to agree. Raises NotTried where no line has it."""
    if first_parting(before, batch.traced(batch.given)[1]) is not None:
        raise NotTried("two calls with the same inputs differ")
    number = first_parting(before, after, kept)
    if number is not None:
        number = _origin(before, after, number, batch)
    place = batch.bench.run.lines.place(before.steps[number].instruction) if number is not None else None
    if place is None:
        raise NotTried("the samples meet where no line of the program's can be told")
    one, other = (0, _OTHER) if kept == batch.others else (_OTHER, 0)
    message = (
        f"in a batch of {batch.size}, sample {one} changes sample {other} here: a sample's result depends on others"
    )
    return Fault(SamplesStandAlone.code, message, place)


def _origin(before: Trace, after: Trace, number: int, batch: Batch) -> int:
    """Return the step that mixes the samples: the one before, where it has left no axis of samples to tell them by."""
    known = {step.key: step for step in after.steps}
    for earlier in reversed(before.steps[number].made_of):
        step = before.steps[earlier]
        other = known.get(step.key)
        lost = other is not None and all(batch.others(result) is None for result in step.results)
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
            tensor[rows] = tensor.flip(0)[rows]
            return tensor
        drawn = torch.rand(tensor.shape, generator=generator).to(tensor)
        tensor = tensor.clone()
        tensor[rows] = (tensor * (0.25 + 0.5 * drawn))[rows]
        return tensor

    return mapped(given, changed)
