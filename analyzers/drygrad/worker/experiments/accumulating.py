"""Accumulation adds up: the micro-batches of a step give the gradient that they would give as one batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

import torch

from drygrad.worker.experiments.bench import Bench, Inputs
from drygrad.worker.experiments.micro_batches import Cut, Group, Mean, MicroBatches
from drygrad.worker.experiments.relation import NotTried, Relation
from drygrad.worker.lines import Instruction
from drygrad.worker.run import Fault, Place

_UNEVEN = 1.5
"""From so many times the weight of another target on, one counts noticeably more."""
_CLOSE = 1e-4


class AccumulationAddsUp(Relation):
    """Calls a step of training once more, and weighs what each ``backward`` before a step has added to the gradient."""

    code: ClassVar[str] = "DG932"
    name: ClassVar[str] = "accumulation adds up"
    rank: ClassVar[int] = 28

    def examine(self, bench: Bench) -> Iterable[Fault]:
        """Yield what makes the gradient of a step another one than that of its micro-batches as one batch."""
        if not bench.trains:
            raise NotTried("it takes no training step")
        given = bench.inputs()
        heard = MicroBatches(bench.run, _batches(given))
        bench.listen(heard)
        bench.must_pass(given)
        heard.end()
        groups = [group for group in heard.groups if group.passes]
        if not any(_accumulates(group) for group in groups):
            raise NotTried(
                "it does not accumulate gradients: no step follows more than one backward() of the same line"
            )
        if len(heard.optimizers) > 1:
            raise NotTried("it has more than one optimizer")
        yield from _Judgement(bench, groups, heard).faults()


def _batches(given: Inputs) -> dict[str, torch.Tensor]:
    values = zip(given.names, given.values)
    return {name: value for name, value in values if isinstance(value, torch.Tensor) and value.dim() and len(value) > 1}


def _accumulates(group: Group) -> bool:
    """Say whether all passes of a group are of one line, and more than one."""
    return len(group.passes) > 1 and len({one.place for one in group.passes}) == 1


class _Judgement:
    """What the groups of one call show."""

    def __init__(self, bench: Bench, groups: list[Group], heard: MicroBatches) -> None:
        self._lines = bench.run.lines
        self._invented = bench.invented
        self._groups = groups
        self._whole = [group for group in groups if group.stepped is not None and not group.is_cut_off]
        self._heard = heard

    def faults(self) -> Iterator[Fault]:
        """Yield them, each kind at the first group that shows it."""
        accumulating = [group for group in self._groups if _accumulates(group)]
        for judged in (self._scaled_between, self._uneven):
            yield from _first(judged(group) for group in accumulating)
        yield from _first(self._left_out(group) for group in accumulating if not group.is_cut_off)
        yield from _first(self._of_another_size(group) for group in self._whole)

    def _scaled_between(self, group: Group) -> Fault | None:
        place = self._lines.place(group.scaled)
        if place is None:
            return None
        message = (
            "the gradients are clipped or scaled after each micro-batch, and the next one adds to what is left: "
            "do it once, before the step"
        )
        return self._fault(
            message, place, "warning", ("the next micro-batch adds to them here", group.passes[-1].place)
        )

    def _uneven(self, group: Group) -> Fault | None:
        """Means over unlike numbers of targets, all of which count alike."""
        for line, means in _by_line(group).items():
            weights = [mean.share / mean.over for mean in means if mean.over]
            is_partial = any(mean.over != mean.elements for mean in means)
            alike = all(_is_close(mean.share, means[0].share) for mean in means)
            place = self._lines.place(line)
            if place is None or not (is_partial and alike and weights and min(weights) > 0):
                continue
            ratio = max(weights) / min(weights)
            if ratio <= 1 + _CLOSE:
                continue
            counts = sorted(mean.over for mean in means if mean.over)
            noun = "summed class weights" if means[0].weighted else "targets"
            message = (
                f"micro-batches with {counts[0]:.4g} to {counts[-1]:.4g} {noun} get equal weight because each takes "
                f"its own mean: a target in one counts {ratio:.3g} times as much as in another; divide the sums by the "
                "step's total"
            )
            severity = "warning" if ratio >= _UNEVEN and not self._invented else "info"
            return self._fault(message, place, severity, ("each is added here", group.passes[0].place))
        return None

    def _left_out(self, group: Group) -> Fault | None:
        """The last samples of an input, fewer than a micro-batch has, that no pass of the step has taken."""
        for name in dict.fromkeys(cut.name for cut in group.cuts if cut.name not in self._heard.used_whole):
            cuts = [cut for cut in group.cuts if cut.name == name]
            size, last = cuts[0].end - cuts[0].start, cuts[-1]
            whole = _length(cuts)
            if whole is None or len(cuts) != len(group.passes) or not 0 < whole - self._heard.reached[name] < size:
                continue
            place = self._lines.place(last.line)
            if place is None:
                continue
            rest = whole - last.end
            samples = f"the last {rest} samples" if rest > 1 else "the last sample"
            message = f"{samples} of `{name}` ({whole}) are in no micro-batch of {size}: round their number up"
            return self._fault(message, place, "info", ("the step is taken here", group.stepped))
        return None

    def _of_another_size(self, group: Group) -> Fault | None:
        """A group of fewer passes than the others, whose losses are divided as if it had as many."""
        usual = max(self._whole, key=lambda one: len(one.passes))
        few, many = len(group.passes), len(usual.passes)
        if few == many or not _accumulates(usual) or group.passes[0].place != usual.passes[0].place:
            return None
        if not any(self._is_same_share(means, _by_line(usual).get(line)) for line, means in _by_line(group).items()):
            return None
        first = group is self._groups[0]
        which = "first" if first else "last" if group is self._groups[-1] else "shorter"
        message = (
            f"the {which} step has {few} micro-batch{'es' * (few > 1)}, each divided as one of {many}: "
            f"its gradient is {few / many:.3g} of what it would be as one batch"
        )
        place, other = (group.stepped, group.passes[0].place) if first else (group.passes[0].place, group.stepped)
        if place is None:
            return None
        said = "the losses are added here" if first else "the step is taken here"
        return self._fault(message, place, "warning" if first else "info", (said, other))

    @staticmethod
    def _is_same_share(means: list[Mean], usual: list[Mean] | None) -> bool:
        """Say whether the means of a line were divided, by as much in one group as in the other."""
        return (
            bool(usual) and 0 < means[0].share < 1 and all(_is_close(m.share, usual[0].share) for m in (*means, *usual))
        )

    def _fault(self, message: str, place: Place, severity: str, other: tuple[str, Place | None]) -> Fault:
        said, at = other
        related = [(said, at)] if at is not None and at != place else []
        return Fault(AccumulationAddsUp.code, message, place, severity=severity, related=related)


def _length(cuts: list[Cut]) -> int | None:
    """Return how long an input is that is cut into equal parts, one behind the other, from its beginning on."""
    sizes = {cut.end - cut.start for cut in cuts}
    follow = all(one.end == other.start for one, other in zip(cuts, cuts[1:]))
    return cuts[0].whole if len(sizes) == 1 and follow and cuts[0].start == 0 else None


def _by_line(group: Group) -> dict[Instruction, list[Mean]]:
    """Return the means of the lines of which each pass has just one."""
    found: dict[Any, list[Mean]] = {}
    for passed in group.passes:
        for mean in passed.means:
            found.setdefault(mean.line, []).append(mean)
    return {line: means for line, means in found.items() if line is not None and len(means) == len(group.passes)}


def _is_close(one: float, other: float) -> bool:
    return abs(one - other) <= _CLOSE * max(abs(one), abs(other))


def _first(faults: Iterable[Fault | None]) -> Iterator[Fault]:
    found = next((fault for fault in faults if fault is not None), None)
    if found is not None:
        yield found
