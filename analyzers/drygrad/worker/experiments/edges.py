"""Edges stay finite: what is finite for the inputs of a run is so at the edge of what is legal, with its gradients."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

import torch

from drygrad.worker import errors, probe
from drygrad.worker.experiments.bench import Bench, Called, Inputs
from drygrad.worker.experiments.copies import Copies, gradients, parameters
from drygrad.worker.experiments.edge_values import Edge, at_points, far_out, grown, negative, of_selections
from drygrad.worker.experiments.held import held_tensors, require_tensors, shown
from drygrad.worker.experiments.relation import NotTried, Relation
from drygrad.worker.experiments.singular import Singular
from drygrad.worker.explain.births import OTHER
from drygrad.worker.instruments.births import Births
from drygrad.worker.reading import is_readable, quietly
from drygrad.worker.run import Fault, Place

_SHARE = 0.8
"""Of the time that there is: then no more edges are begun."""
_WEIGHTS = 3
_GREATEST = torch.finfo(torch.float32).max


class EdgesStayFinite(Relation):
    """Calls the target with values at which operations of its trace are singular."""

    code: ClassVar[str] = "DG922"
    name: ClassVar[str] = "edges stay finite"
    rank: ClassVar[int] = 20

    def glance(self, given: Inputs) -> None:
        """Take what is given tensors."""
        require_tensors(held_tensors(given.names, given.values))

    def examine(self, bench: Bench) -> Iterable[Fault]:
        """Yield where NaN or infinity begins that legal inputs lead to."""
        return _Search(bench).faults()


class _Search:
    """The search for edges of one target."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._copies = Copies(bench.inputs())
        self._singular = Singular(bench.run)
        self._reached = 0.0
        """How far operands have come with the inputs as they are."""
        self._seen: set[tuple[str, int]] = set()

    def faults(self) -> Iterator[Fault]:
        """Yield what is found, one fault a line. Raises NotTried."""
        require_tensors(self._copies.held)
        yield from self._of_the_run()
        if not (self._singular.at_a_point or self._singular.of_nothing or self._reached or self._seen):
            raise NotTried("it has no singular operations")
        for edge in self._edges():
            if self._bench.spent > _SHARE:
                return
            for fault in self._at(edge)[:1]:
                where = _line(fault)
                if where not in self._seen:
                    self._seen.add(where)
                    yield fault

    def _of_the_run(self) -> Iterator[Fault]:
        """Call the target with the inputs as they are; yield gradients that are not finite, which nobody has asked for.

        What else is not finite there is no matter of edges.
        """
        called, given = self._tried(Edge(""))
        if called.error is not None and not self._copies.asked:
            self._copies.with_gradients = False  # what the program writes to is no leaf that requires grad
            called, given = self._tried(Edge(""))
        if called.error is not None:
            said = f"{type(called.error).__name__}: {errors.first_line(called.error)}"
            raise NotTried(errors.shortened(f"a second call ends with {said}"))
        if _wrong(called.returned):
            raise NotTried("its result is not finite to begin with")
        self._reached = self._singular.reached
        for fault in list(self._bench.run.faults):
            if _line(fault) not in self._seen and not self._copies.asked:
                yield _told(fault, "gradients are taken", given, "info")
            self._seen.add(_line(fault))

    def _edges(self) -> Iterator[Edge]:
        """Yield the edges at which an operation of the trace may be singular, the most ordinary first."""
        singular = self._singular
        text = str(getattr(self._copies.given.function, "__doc__", None) or "")
        known = [(held, shown(held, text)) for held in self._copies.held]
        weights = [*parameters(self._copies.given)]
        if singular.at_a_point or singular.of_nothing:
            yield from of_selections(known, singular.ignored, singular.compared)
        if singular.at_a_point:
            yield from at_points(known)
            yield from negative(weights)
        if self._reached:
            yield from far_out(known)
            layers = [name for name, weight in weights if weight.dim() > 1]
            yield from grown(layers[::-1][:_WEIGHTS], self._reached)

    def _at(self, edge: Edge) -> list[Fault]:
        """Return what is not finite at an edge, as the user is to read it."""
        called, given = self._tried(edge)
        faults = list(self._bench.run.faults)
        self._bench.run.faults.clear()
        if called.error is not None or not faults:
            return []
        if not (edge.far or edge.saturated) and _wrong(called.returned) == "infinite":
            return []  # the limit may be meant: a logarithm of 0, a ratio to nothing
        if edge.far and not self._is_finite_in_wide(edge):
            return []
        is_kept = any("." in held.name for held in self._copies.held if id(held.tensor) in edge.values)
        # What an object of the program keeps, its constructor has made so that it fits.
        is_ordinary = edge.ordinary and not (edge.saturated or is_kept or self._bench.invented)
        is_warning = is_ordinary and self._spreads(called.returned, given, edge)
        return [_told(fault, edge.words, given, "warning" if is_warning else "info") for fault in faults]

    def _spreads(self, returned: Any, given: Inputs, edge: Edge) -> bool:
        """Say whether more is lost than the results of what is at the edge: a loss, what trains, other samples."""
        results = [tensor for tensor in probe.tensors(returned) if tensor.is_floating_point()]
        if any(not tensor.dim() for tensor in results) and self._copies.asked:
            trained = [gradient for _, gradient in gradients(given)]
        else:
            trained = [p.grad for _, p in parameters(given) if p.grad is not None]
        lost = [tensor for tensor in results if not _is_finite(tensor)]
        others = any(not tensor.dim() or (edge.first_only and not _is_finite(tensor[1:])) for tensor in lost)
        return others or not all(map(_is_finite, trained))

    def _tried(self, edge: Edge) -> tuple[Called, Inputs]:
        """Call the target at an edge, and go backward from what it returns; the faults are the run's then."""
        bench, run = self._bench, self._bench.run
        given = self._inputs(edge)
        run.faults.clear()
        births = Births(run)
        bench.listen(self._singular, births)
        births.start()
        try:
            called = bench.call(given)
            if called.error is None:
                line = bench.execution.hooks.last_return
                run.tell("returned", called.returned, Place(run.lines.path, line) if line else None)
                self._go_backward(called.returned)
        finally:
            births.finish()
        run.faults[:] = [fault for fault in run.faults if fault.at is not None]
        return called, given

    def _inputs(self, edge: Edge, wide: bool = False) -> Inputs:
        given = self._copies.inputs(edge.values, torch.float64 if wide else None)
        if edge.grown is not None:
            name, factor = edge.grown
            with quietly():
                dict(parameters(given))[name].mul_(factor)
        return given

    def _go_backward(self, returned: Any) -> None:
        roots = probe.outputs(returned)
        self._bench.run.probing = True
        try:
            if roots:
                # The target may have gone backward itself; what else fails is no matter of edges.
                probe.failure_of_backward(roots, self._bench.seed)
        finally:
            self._bench.run.probing = False

    def _is_finite_in_wide(self, edge: Edge) -> bool:
        """Say whether numbers of twice the width give a result, and gradients, that the usual ones could hold."""
        self._bench.listen()
        usual = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        try:
            given = self._inputs(edge, wide=True)
            called = self._bench.call(given)
            if called.error is not None:
                return False
            self._go_backward(called.returned)
        finally:
            torch.set_default_dtype(usual)
        results = [tensor for tensor in probe.tensors(called.returned) if tensor.is_floating_point()]
        return bool(results) and all(
            _is_held_by_usual(tensor) for tensor in (*results, *(g for _, g in gradients(given)))
        )


def _told(fault: Fault, condition: str, given: Inputs, severity: str) -> Fault:
    """Return a fault as the user is to read it."""
    lost = next((name for name, gradient in gradients(given) if not _is_finite(gradient)), "a leaf")
    fault.message = fault.message.replace("gradient of a leaf", f"gradient of `{lost}`")
    fault.message = f"if {condition}, {fault.message}"
    fault.code = EdgesStayFinite.code if fault.code == OTHER else fault.code
    fault.severity = severity
    return fault


def _line(fault: Fault) -> tuple[str, int]:
    assert fault.at is not None
    return fault.at.path, fault.at.line


def _wrong(returned: Any) -> str:
    """Say what is wrong with a result: ``NaN``, ``infinite``, or nothing."""
    floats = (t for t in probe.tensors(returned) if is_readable(t) and t.is_floating_point())
    bad = [tensor for tensor in floats if not _is_finite(tensor)]
    with quietly():
        return ("NaN" if any(bool(torch.isnan(t).any()) for t in bad) else "infinite") if bad else ""


def _is_finite(tensor: torch.Tensor) -> bool:
    with quietly():
        return bool(torch.isfinite(tensor).all())


def _is_held_by_usual(tensor: torch.Tensor) -> bool:
    with quietly():
        return bool((tensor.abs() <= _GREATEST).all())
