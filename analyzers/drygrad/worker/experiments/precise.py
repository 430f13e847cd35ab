"""Precision suffices: the results of a call are those that it has with all numbers of twice the width."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

import torch

from drygrad.worker import probe
from drygrad.worker.experiments.bench import Bench, Inputs
from drygrad.worker.experiments.copies import Copies, parameters
from drygrad.worker.experiments.held import Held, held_tensors, shown
from drygrad.worker.experiments.relation import NotTried, Relation
from drygrad.worker.experiments.trace import Step, Trace, is_noise
from drygrad.worker.reading import is_readable, quietly
from drygrad.worker.run import Fault

_OFF = 1e-2
"""The share of a result that is wrong: a hundred thousand times what one rounding makes of a float32."""
_STEEP = 100.0
"""How much more than its operands the culprit's result is off."""
_NOTHING = 1e-11
"""Where so little of its operands is left in float64, too, a result is meant to be 0."""
_FAR = 1000.0
_MOST = 3
_SHARE = 0.6
_SUBTRACTIONS = frozenset(f"aten::{name}" for name in ("sub", "sub_", "rsub", "add", "add_"))
_ILL = ("linalg", "svd", "eig", "inverse", "lu", "cholesky", "solve", "sin", "cos", "tan", "fmod", "remainder", "floor")
"""What is steep by its nature: a matrix near a singular one, an angle of many turns."""


class PrecisionSuffices(Relation):
    """Calls the target with numbers of twice the width."""

    code: ClassVar[str] = "DG934"
    name: ClassVar[str] = "precision is sufficient"
    rank: ClassVar[int] = 35

    def glance(self, given: Inputs) -> None:
        """Take what is of single precision throughout."""
        require_single(given, held_tensors(given.names, given.values))

    def examine(self, bench: Bench) -> Iterable[Fault]:
        """Yield the first operation whose result is off though its operands are not."""
        given = bench.inputs()
        if isinstance(given.owner, torch.nn.Module):
            given.owner.eval()
        copies = Copies(given)
        require_single(given, copies.held)
        twice = _Twice(bench, copies)
        culprit = twice.culprit({})
        if culprit is not None:
            severity = "info" if bench.invented or bench.unprepared else "warning"
            yield from _told(bench, culprit, "", severity)
            return
        text = str(getattr(given.function, "__doc__", None) or "")
        free = [held for held in copies.held if shown(held, text).far and held.tensor.numel() > 1]
        for held in free[:_MOST]:
            if bench.spent > _SHARE:
                return
            culprit = twice.culprit(_moved(held))
            if culprit is not None and culprit[0].name in _SUBTRACTIONS:
                yield from _told(bench, culprit, f"where `{held.name}` lies far from 0, ", "info")
                return


def require_single(given: Inputs, held: Sequence[Held]) -> None:
    """Raise NotTried where not all that has a width is float32."""
    tensors = [*(one.tensor for one in held), *(p for _, p in parameters(given))]
    if not any(tensor.dtype is torch.float32 for tensor in tensors):
        raise NotTried("none of its inputs are float32")
    if any(tensor.is_floating_point() and tensor.dtype is not torch.float32 for tensor in tensors):
        raise NotTried("its inputs have dtypes of different widths")


def _moved(held: Held) -> dict[int, torch.Tensor]:
    """Return a tensor whose values lie a thousand deviations from 0."""
    with quietly():
        value = held.tensor.detach()
        return {id(held.tensor): value + _FAR * value.std().clamp(min=1e-3)}


def _told(bench: Bench, culprit: tuple[Step, float], condition: str, severity: str) -> Iterator[Fault]:
    step, error = culprit
    place = bench.run.lines.place(step.instruction)
    if place is None:
        raise NotTried("precision is lost, but not at a line of the program")
    share = f"{100 * min(error, 1.0):.0f} %"
    message = (
        f"{condition}precision is lost here: {share} of the result is rounding error, compared with a run in float64"
    )
    yield Fault(PrecisionSuffices.code, message, place, severity=severity)


class _Twice:
    """Calls of one target in the usual width and in float64."""

    def __init__(self, bench: Bench, copies: Copies) -> None:
        self._bench, self._copies = bench, copies

    def culprit(self, values: dict[int, torch.Tensor]) -> tuple[Step, float] | None:
        """Return the step that makes results wrong, and by which share. Raises NotTried where none can be told."""
        usual, trace = self._traced(values, wide=False)
        exact, wide = self._traced(values, wide=True)
        pairs = [(a, b) for a, b in zip(usual, exact) if _off(a, b) > _OFF]
        if not pairs:
            return None
        known = {step.key: step for step in wide.steps}
        errors: dict[int, float] = {}
        for number in sorted(trace.behind([a for a, _ in pairs])):
            step = trace.steps[number]
            other = known.get(step.key)
            if other is None or len(step.results) != len(other.results):
                continue
            if not _is_steep(step) and not all(map(_comes_out_alike, step.results, other.results)):
                raise NotTried("a comparison has a different outcome in float64")
            errors[number] = max(map(_off, step.results, other.results), default=0.0)
            before = max((errors.get(maker, 0.0) for maker in step.made_of), default=0.0)
            if errors[number] > _OFF and before * _STEEP < errors[number] and not self._is_meant(trace, step, other):
                return step, errors[number]
        return None

    def _is_meant(self, trace: Trace, step: Step, other: Step) -> bool:
        """Say whether a step is steep by its nature, or what it comes to is nothing but for the rounding."""
        if _is_steep(step):
            return True
        scale = max((_greatest(result) for maker in step.made_of for result in trace.steps[maker].results), default=0.0)
        return all(_greatest(result) <= _NOTHING * scale for result in other.results)

    def _traced(self, values: dict[int, torch.Tensor], *, wide: bool) -> tuple[list[torch.Tensor], Trace]:
        """Call the target and return its floating results, and what it computes. Raises NotTried."""
        bench = self._bench
        usual = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64 if wide else usual)
        trace = Trace(bench.run)
        bench.listen(trace)
        try:
            given = self._copies.inputs(values, torch.float64 if wide else None)
            with torch.no_grad():
                returned = bench.must_pass(given)
        finally:
            torch.set_default_dtype(usual)
        if trace.full:
            raise NotTried("too large to compare")
        if any(map(is_noise, trace.steps)):
            raise NotTried("it draws random numbers")
        return [t for t in probe.tensors(returned) if is_readable(t) and t.is_floating_point()], trace


def _is_steep(step: Step) -> bool:
    """Say whether rounding may decide what a step comes to, such as the rows that a factorization pivots on."""
    return any(word in step.name for word in _ILL)


def _off(one: torch.Tensor, exact: torch.Tensor) -> float:
    """Return which share of the greatest number a result is off; 0 where that cannot be told."""
    if one.shape != exact.shape or not exact.numel() or not (one.is_floating_point() and exact.is_floating_point()):
        return 0.0
    with quietly():
        mine, true = one.double(), exact.double()
        if not (bool(mine.isfinite().all()) and bool(true.isfinite().all())):
            return 0.0
        greatest: Any = true.abs().amax()
        return float((mine - true).abs().amax() / greatest) if float(greatest) > 0 else 0.0


def _comes_out_alike(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.is_floating_point() or one.is_complex():
        return True
    with quietly():
        return one.shape == other.shape and bool((one == other).all())


def _greatest(tensor: torch.Tensor) -> float:
    with quietly():
        return float(tensor.abs().max()) if tensor.numel() and tensor.is_floating_point() else 0.0
