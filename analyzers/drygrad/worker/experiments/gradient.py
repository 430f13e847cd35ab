"""Gradients are true: a backward is that of its forward, and what trains and matters for a result has a gradient."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import torch

from drygrad.worker import graphs, probe
from drygrad.worker.departures import Departure
from drygrad.worker.experiments.bench import Bench, Inputs
from drygrad.worker.experiments.copies import Copies, parameters
from drygrad.worker.experiments.relation import NotTried, Relation
from drygrad.worker.experiments.trace import Trace, agree, first_parting
from drygrad.worker.instruments.backwards import Backwards
from drygrad.worker.instruments.graph import Graph
from drygrad.worker.reading import is_readable, quietly
from drygrad.worker.run import Fault, Place

_COPIED = ("torch.tensor(", "Tensor(", "new_tensor(", "as_tensor(")
"""What makes a tensor of numbers: nobody leaves a graph by it on purpose."""
_NOISE = 0.05
_MOST = 4
_NAMED = 3


class GradientsAreTrue(Relation):
    """Compares backwards of the user's own with finite differences, and changes parameters that get no gradient."""

    code: ClassVar[str] = "DG935"
    name: ClassVar[str] = "gradients are true"
    rank: ClassVar[int] = 28

    def examine(self, bench: Bench) -> Iterable[Fault]:
        """Yield backwards that disagree with their forward, and where the graph of what trains is cut."""
        calls = _Calls(bench)
        returned, given = calls.first()
        yield from bench.run.faults
        trained = {name: p for name, p in parameters(given) if p.requires_grad and is_readable(p)}
        reached = {id(leaf) for leaf in graphs.leaves(probe.outputs(returned))}
        without = {name: p for name, p in trained.items() if id(p) not in reached and p.grad is None}
        if len(without) == len(trained):
            if calls.compared:
                return
            raise NotTried("nothing trainable contributes to its results" if trained else "nothing in it is trainable")
        cut: dict[Departure | None, list[str]] = {}
        for name, parameter in without.items():
            departure = bench.run.departure_of(id(parameter))
            if departure is None or not departure.switch:
                cut.setdefault(departure, []).append(name)
        for departure, names in [*cut.items()][:_MOST]:
            number = calls.parting(names)
            if number is not None:
                place = departure.place if departure is not None else calls.place(number)
                yield _told(bench, place, names, given, as_numbers=departure is None)


class _Calls:
    """Calls of one target with copies of its inputs, and with parameters that are changed."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._copies = Copies(bench.inputs())
        self._results: list[torch.Tensor] = []
        """What has a graph."""
        self._trace: Trace | None = None
        self.compared = False
        """Whether there was a backward of the user's own."""

    def first(self) -> tuple[Any, Inputs]:
        """Call the target with the inputs as they are; gradients of these are asked for where that is possible."""
        given = self._copies.inputs({})
        try:
            returned = self._heard(given)
        except NotTried:
            if self._copies.asked:
                raise
            self._copies.with_gradients = False  # what the program writes to is no leaf that requires grad
            given = self._copies.inputs({})
            returned = self._heard(given)
        return returned, given

    def _heard(self, given: Inputs) -> Any:
        backwards = Backwards(self._bench.run)
        self._bench.run.faults.clear()
        self._bench.listen(Graph(self._bench.run), backwards)
        backwards.start()
        try:
            return self._bench.must_pass(given)
        finally:
            backwards.finish()
            self.compared = backwards.compared

    def parting(self, names: list[str]) -> int | None:
        """Return the first step that some parameters change, where they change results that have a graph."""
        if self._trace is None:
            self._results, self._trace = self._traced([])
            again, _ = self._traced([])
            if not _all_agree(self._results, again):
                raise NotTried("two calls with the same inputs differ")
        results, trace = self._traced(names)
        return first_parting(self._trace, trace) if not _all_agree(self._results, results) else None

    def place(self, number: int) -> Place:
        """Return the place of a step. Raises NotTried where it is not the program's."""
        assert self._trace is not None
        place = self._bench.run.lines.place(self._trace.steps[number].instruction)
        if place is None:
            raise NotTried("a tensor without a gradient is used, but not at a line of the program")
        return place

    def _traced(self, names: list[str]) -> tuple[list[torch.Tensor], Trace]:
        given = self._copies.inputs({})
        known = dict(parameters(given))
        generator = torch.Generator().manual_seed(self._bench.seed)
        with quietly():
            for name in names:
                drawn = torch.randn(known[name].shape, generator=generator).to(known[name])
                known[name].add_(drawn * known[name].abs().amax().clamp(min=_NOISE) * _NOISE)
        trace = Trace(self._bench.run)
        self._bench.listen(trace)
        returned = self._bench.must_pass(given)
        if trace.full:
            raise NotTried("too large to compare")
        return [tensor.detach() for tensor in probe.outputs(returned) if is_readable(tensor)], trace


def _all_agree(one: list[torch.Tensor], other: list[torch.Tensor]) -> bool:
    return all(agree(a, b) for a, b in zip(one, other))


def _told(bench: Bench, place: Place, names: list[str], given: Inputs, *, as_numbers: bool) -> Fault:
    more = len(names) - _NAMED
    listed = ", ".join(f"`{name}`" for name in names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
    have, them = ("have", "them") if names[1:] else ("has", "it")
    none = f"{listed} {have} no gradient, although the result depends on {them}"
    text = bench.run.lines.text(place) or ""
    trains = not isinstance(given.owner, torch.nn.Module) or given.owner.training
    sure = trains and (as_numbers or any(copy in text for copy in _COPIED))
    how = "used as a number here" if as_numbers else "the graph ends here"
    return Fault(GradientsAreTrue.code, f"{none}: {how}", place, severity="warning" if sure else "info")
