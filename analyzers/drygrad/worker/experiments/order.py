"""Order is free: samples in another order come to the same results, in that order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import torch

from drygrad.worker.experiments.batches import Batch, mapped, require_module
from drygrad.worker.experiments.bench import Bench, Inputs
from drygrad.worker.experiments.relation import NotTried, Relation
from drygrad.worker.experiments.samples import with_others_at
from drygrad.worker.experiments.trace import Step, Trace, agree, aligned
from drygrad.worker.run import Fault

_BY = 2


class OrderIsFree(Relation):
    """Calls a module in evaluation with its samples in another order."""

    code: ClassVar[str] = "DG936"
    name: ClassVar[str] = "order is free"
    rank: ClassVar[int] = 36

    def glance(self, given: Inputs) -> None:
        """Take nothing but what a module does."""
        require_module(given)

    def examine(self, bench: Bench) -> Iterable[Fault]:
        """Yield the first operation that treats a sample by its place in the batch."""
        batch = Batch(bench)
        returned, before = batch.traced(batch.given)
        results = batch.results(returned)
        batch.require(before)
        moved = mapped(batch.given, lambda tensor: tensor.roll(_BY, 0))
        changed, after = batch.traced(moved)
        pairs = [*zip(results, batch.results(changed))]
        if all(agree(_moved(one, batch.size), other) for one, other in pairs):
            return
        again, _ = batch.traced(batch.given)
        if not all(map(agree, results, batch.results(again))):
            raise NotTried("two calls with the same inputs differ")
        beside, _ = batch.traced(with_others_at(batch.given, slice(0, 1)))
        if not all(agree(one, other, batch.others) for one, other in zip(results, batch.results(beside))):
            raise NotTried("its samples do not stand alone")
        step = _culprit(batch, before, after, results)
        place = bench.run.lines.place(step.instruction) if step is not None else None
        if place is None:
            raise NotTried("its results depend on the order where no line of the program's can be told")
        message = (
            f"a sample comes to something else here where it has another place in its batch of {batch.size}: "
            f"what is added or multiplied goes by the number of the sample"
        )
        yield Fault(self.code, message, place)


def _moved(tensor: torch.Tensor, size: int) -> torch.Tensor:
    """Return a result as it is to be of samples in the other order."""
    axes = [axis for axis, one in enumerate(tensor.shape) if one == size]
    return tensor.roll([_BY] * len(axes), axes) if axes else tensor


def _culprit(batch: Batch, before: Trace, after: Trace, results: list[torch.Tensor]) -> Step | None:
    """Return the first step behind the results that has to do with the inputs, and does not keep to the order."""
    behind = before.behind(results).keys() & before.after(batch.given.tensors())
    for number, mine, theirs in aligned(before, after):
        pairs = zip(mine.results, theirs.results)
        if number in behind and not all(agree(_moved(one, batch.size), other) for one, other in pairs):
            return mine
    return None
