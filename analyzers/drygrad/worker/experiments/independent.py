"""Calls are independent: what a call comes to is the same whether or not another one came before it."""

from __future__ import annotations

import dis
import inspect
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, NamedTuple, cast

import torch

from drygrad.worker import errors
from drygrad.worker.experiments.batches import mapped
from drygrad.worker.experiments.bench import Bench, Inputs
from drygrad.worker.experiments.evaluated import severity_of
from drygrad.worker.experiments.relation import NotTried, Relation
from drygrad.worker.experiments.trace import Trace, is_noise
from drygrad.worker.probe import tensors
from drygrad.worker.reading import quietly
from drygrad.worker.run import Fault, Place
from drygrad.worker.search import isolated

_PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, torch.nn.Module)
_RELATIVE = 1e-4
_KEEPING = frozenset(("STORE_GLOBAL", "STORE_DEREF"))
_AXES = (0, 1, -1)
_ROWS = 2
_SHARE = 0.6
"""After this share of its time it tries nothing more."""

Change = Callable[[torch.Tensor], torch.Tensor]


class CallsAreIndependent(Relation):
    """Calls the target with other inputs, alone and after the call that the run has made."""

    code: ClassVar[str] = "DG929"
    name: ClassVar[str] = "calls are independent"
    rank: ClassVar[int] = 30

    def glance(self, given: Inputs) -> None:
        """Take nothing that may keep something on purpose."""
        _require_owed(given)

    def examine(self, bench: Bench) -> Iterable[Fault]:
        """Yield where a call finds what an earlier one has left."""
        given = bench.inputs()
        _require_owed(given)
        severity = None
        if isinstance(given.owner, torch.nn.Module):
            severity = severity_of(given.owner)
            given.owner.eval()
        changes = [*_changes(given)]
        following = isolated.until(lambda: _all_after(bench, given, [change for change, _ in changes]), bench.until)
        if following is None:
            raise NotTried("a second call with its inputs does not finish")
        tried = 0
        for (change, words), after in zip(changes, following["calls"]):
            if bench.spent > _SHARE:
                break
            alone = isolated.until(lambda change=change: _told(bench, given, change), bench.until)
            if alone is None or "error" in alone:
                continue  # it does not take such inputs, whatever came before
            tried += 1
            fault = None if _is_alike(alone, after) else _looked_into(bench, given, change, words)
            if fault is not None:
                fault.severity = severity
                yield fault
                return
        if not tried:
            raise NotTried("it takes no inputs other than those of the run")


def _require_owed(given: Inputs) -> None:
    """Raise NotTried for what may keep something on purpose."""
    if isinstance(given.owner, torch.nn.Module):
        if given.function is not given.owner:
            raise NotTried("it is a method of an object that may keep state on purpose")
    elif given.owner is not None or not inspect.isfunction(inspect.unwrap(given.function)):
        raise NotTried("it is called on an object that may keep state on purpose")
    elif _keeps_by_name(inspect.unwrap(given.function)):
        raise NotTried("it says that it keeps state")
    for value in given.values:
        if not all(isinstance(part, (*_PLAIN, torch.Tensor)) for part in _parts(value)):
            raise NotTried("it may modify its inputs")
    if not given.tensors():
        raise NotTried("there are no tensors among its inputs")


def _parts(value: Any) -> list[Any]:
    return [p for v in cast("tuple[Any, ...]", value) for p in _parts(v)] if isinstance(value, tuple) else [value]


def _keeps_by_name(function: Any) -> bool:
    return any(instruction.opname in _KEEPING for instruction in dis.get_instructions(function))


def _changes(given: Inputs) -> Iterator[tuple[Change, str]]:
    """Yield what may be changed of the inputs: values, then one size; with words for it.

    The second dimension of two may count features, whose number a module may learn from its first call.
    """
    yield _other_values, "other values"
    sizes: set[int] = set()
    for tensor in given.tensors():
        for axis in _AXES[:1] if tensor.dim() == _ROWS and tensor.is_floating_point() else _AXES:
            size = tensor.shape[axis] if -tensor.dim() <= axis < tensor.dim() else 0
            if size > 2 and size not in sizes:
                sizes.add(size)
                yield _Shorter(size), f"{size - 1} instead of {size}"


def _other_values(tensor: torch.Tensor) -> torch.Tensor:
    return tensor * 0.5 if tensor.is_floating_point() else tensor.flip(0)


class _Shorter:
    """Leaves out the last of every axis of a size."""

    def __init__(self, size: int) -> None:
        self._size = size

    def __call__(self, tensor: torch.Tensor) -> torch.Tensor:
        for axis in range(tensor.dim()):
            if tensor.shape[axis] == self._size:
                tensor = tensor.narrow(axis, 0, self._size - 1)
        return tensor.clone()


def _looked_into(bench: Bench, given: Inputs, change: Change, words: str) -> Fault | None:
    """Return the fault of a change whose call differs after others: alone, and after that of the run alone."""
    alone = isolated.until(lambda: _told(bench, given, change, steps=True), bench.until)
    after = isolated.until(lambda: _told_after(bench, given, change), bench.until)
    return _difference(alone, after, words) if alone is not None and after is not None else None


def _all_after(bench: Bench, given: Inputs, changes: list[Change]) -> dict[str, Any]:
    """Return what each change comes to in a call after that of the run, all in one process; as far as time allows."""
    told: list[dict[str, Any]] = []
    for change in changes:
        if told and bench.spent > _SHARE / 2:
            break
        with torch.no_grad():
            bench.must_pass(mapped(given, lambda tensor: tensor.detach().clone()))
        told.append(_told(bench, given, change))
    return {"calls": told}


def _told(bench: Bench, given: Inputs, change: Change, *, steps: bool = False) -> dict[str, Any]:
    """Return what a call with changed inputs comes to, in numbers, and perhaps each of its steps."""
    trace = Trace(bench.run)
    bench.listen(*([trace] if steps else []))
    with torch.no_grad():
        called = bench.call(mapped(given, lambda tensor: change(tensor.detach().clone())))
    if called.error is not None:
        place = called.place._asdict() if called.place is not None else None
        said = errors.shortened(f"{type(called.error).__name__}: {errors.first_line(called.error)}", 160)
        return {"error": said, "at": place}
    with quietly():
        results = [_digest(tensor) for tensor in tensors(called.returned)]
    return {"results": results, "steps": [*_steps(bench, trace)] if steps else []}


def _told_after(bench: Bench, given: Inputs, change: Change) -> dict[str, Any]:
    """Return what the call comes to after that of the run."""
    with torch.no_grad():
        bench.must_pass(mapped(given, lambda tensor: tensor.detach().clone()))
    return _told(bench, given, change, steps=True)


def _steps(bench: Bench, trace: Trace) -> Iterator[dict[str, Any]]:
    for step in trace.steps:
        place = bench.run.lines.place(step.instruction)
        if place is not None and not is_noise(step):
            with quietly():
                made = [_digest(tensor) for tensor in step.results]
            yield {"key": repr(step.key), "at": place._asdict(), "made": made}


def _digest(tensor: torch.Tensor) -> list[float]:
    """Return a tensor in a few numbers that another order of its elements or other values change."""
    values = tensor.detach().reshape(-1).to("cpu", torch.float64)
    values = values[values.isfinite()]
    weights = torch.arange(1, values.numel() + 1, dtype=torch.float64).rsqrt()
    return [float(tensor.numel()), float((values * weights).sum()), float(values.abs().sum())]


class _Parted(NamedTuple):
    at: dict[str, Any]
    message: str


def _difference(alone: dict[str, Any], after: dict[str, Any], words: str) -> Fault | None:
    """Return the fault of a call that comes to something else after another one."""
    found = _parting(alone, after, words)
    return Fault(CallsAreIndependent.code, found.message, Place(**found.at)) if found is not None else None


def _parting(alone: dict[str, Any], after: dict[str, Any], words: str) -> _Parted | None:
    if "error" in after:
        at = after["at"]
        said = f"on the second call, with {words}, this fails on state left by the first: {after['error']}"
        return _Parted(at, said) if at is not None else None
    if _alike(alone["results"], after["results"]):
        return None
    known = {step["key"]: step["made"] for step in alone["steps"]}
    parted = (s for s in after["steps"] if s["key"] in known and not _alike(s["made"], known[s["key"]]))
    first = next(parted, None)
    said = (
        f"on the second call, with {words}, this gives a different result than on a first one: it uses leftover state"
    )
    return _Parted(first["at"], said) if first is not None else None


def _is_alike(alone: dict[str, Any], after: dict[str, Any]) -> bool:
    return "error" not in after and _alike(alone["results"], after["results"])


def _alike(one: list[list[float]], other: list[list[float]]) -> bool:
    return len(one) == len(other) and all(_equal(a, b) for a, b in zip(one, other))


def _equal(one: list[float], other: list[float]) -> bool:
    return all(math.isclose(a, b, rel_tol=_RELATIVE, abs_tol=_RELATIVE * max(one[2], 1e-6)) for a, b in zip(one, other))
