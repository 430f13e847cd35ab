"""Order is free: samples in another order come to the same results, in that order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import torch

from drygrad.worker.experiments.batches import Batch, mapped, require_samples
from drygrad.worker.experiments.bench import Bench, Inputs
from drygrad.worker.experiments.relation import NotTried, Relation
from drygrad.worker.experiments.samples import with_others_at
from drygrad.worker.experiments.trace import Step, Trace, agree, aligned, is_noise
from drygrad.worker.probe import tensors
from drygrad.worker.run import Fault

_BY = 2


class OrderIsFree(Relation):
    """Calls a target, its module in evaluation, with its samples in another order."""

    code: ClassVar[str] = "DG936"
    name: ClassVar[str] = "order is free"
    rank: ClassVar[int] = 36

    def glance(self, given: Inputs) -> None:
        """Take what a module does, or what a text says to take a batch."""
        require_samples(given)

    def examine(self, bench: Bench) -> Iterable[Fault]:
        """Yield the first operation that treats a sample by its place in the batch."""
        batch = Batch(bench)
        returned, before = batch.traced(batch.given)
        results = _results(batch, returned)
        batch.require(before)
        changed, after = batch.traced(mapped(batch.given, lambda tensor: tensor.roll(_BY, 0)))
        if all(_keeps_order(batch, one, other) for one, other in zip(results, _results(batch, changed))):
            return
        again, _ = batch.traced(batch.given)
        if any(map(is_noise, before.steps)) or not all(map(agree, results, _results(batch, again))):
            raise NotTried("two calls with the same inputs differ")
        beside, _ = batch.traced(with_others_at(batch.given, slice(0, 1)))
        kept = zip(results, _results(batch, beside)) if results[0].dim() else ()
        if not all(agree(one, other, batch.others) for one, other in kept):
            raise NotTried("its samples are not independent")
        step = _culprit(batch, before, after, results)
        place = bench.run.lines.place(step.instruction) if step is not None else None
        if place is None:
            raise NotTried("its results depend on the order, but not at a line of the program")
        yield Fault(self.code, _message(batch, results), place, severity=batch.severity)


def _results(batch: Batch, returned: Any) -> list[torch.Tensor]:
    """Return the results that have the batch in front; the numbers of what comes to nothing else, as a loss does."""
    found = [*tensors(returned)]
    return found if found and not any(tensor.dim() for tensor in found) else batch.results(returned)


def _message(batch: Batch, results: list[torch.Tensor]) -> str:
    if not results[0].dim():
        return f"the result changes with the order of the {batch.size} samples in a batch"
    return (
        f"the result of a sample depends on its position in the batch of {batch.size} here: what is added or "
        "multiplied depends on the sample's index"
    )


def _keeps_order(batch: Batch, one: torch.Tensor, other: torch.Tensor) -> bool:
    """Say whether a result is, of samples in the other order, the same in that order."""
    layouts = [*batch.layouts(one)] or [(one, [])]
    moved = (laid.roll([_BY] * len(axes), axes) if axes else laid for laid, axes in layouts)
    return any(agree(each.reshape(one.shape), other) for each in moved)


def _culprit(batch: Batch, before: Trace, after: Trace, results: list[torch.Tensor]) -> Step | None:
    """Return the first step behind the results that has to do with the inputs, and does not keep to the order."""
    behind = before.behind(results).keys() & before.after(batch.given.tensors())
    for number, mine, theirs in aligned(before, after):
        pairs = zip(mine.results, theirs.results)
        if number in behind and not all(_keeps_order(batch, one, other) for one, other in pairs):
            return mine
    return None
