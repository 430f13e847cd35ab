"""State survives: a new module that is given the state of a trained one comes to the same results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any, ClassVar

import torch

from drygrad.worker import errors
from drygrad.worker.experiments.afresh import made_afresh
from drygrad.worker.experiments.attributes import Attribute, attributes, bound_at, holder, put
from drygrad.worker.experiments.batches import mapped
from drygrad.worker.experiments.bench import Bench, Inputs
from drygrad.worker.experiments.relation import NotTried, Relation
from drygrad.worker.experiments.trace import agree
from drygrad.worker.probe import tensors
from drygrad.worker.run import Fault

_LAYERS, _LEARNABLE = "DG741", "DG744"
_CALLS = 2
_MOST = 6
_RESETTING = ("reset", "init_", "clear", "detach", "flush", "forget")


class StateSurvives(Relation):
    """Loads the state of a module that was called in training into one that was made afresh, and compares the two."""

    code: ClassVar[str] = "DG933"
    name: ClassVar[str] = "state survives"
    rank: ClassVar[int] = 28

    def examine(self, bench: Bench) -> Iterable[Fault]:
        """Yield what a module keeps that its state lacks, and its results need."""
        given = bench.inputs()
        if not isinstance(given.owner, torch.nn.Module) or given.function is not given.owner:
            raise NotTried("it is not the forward of a module")
        if bench.run.weights_absent:
            raise NotTried("its weights would be downloaded and are random here")
        if not _may_lose(bench, given, given.owner):
            return
        one = made_afresh(bench, given.owner, bench.seed)
        other = made_afresh(bench, given.owner, bench.seed + 1)
        fresh = {key: kept.kept() for key, kept in attributes(one, bench.run.lines).items()}
        _trained(bench, given, one)
        try:
            other.load_state_dict(one.state_dict())
        except (RuntimeError, KeyError) as error:
            yield _refused(bench, one, other, error)
            return
        yield from _Saved(bench, given, one, other).faults(fresh)


def _may_lose(bench: Bench, given: Inputs, module: torch.nn.Module) -> bool:
    """Say whether a module holds anything beside its state that may differ, or its state changes what it consists of.

    It is called to find that out.
    """
    before = {key: kept.kept() for key, kept in attributes(module, bench.run.lines).items()}
    state = _layout(module)
    if any(attribute.may_differ for attribute in before.values()):
        return True
    _trained(bench, given, module)
    after = attributes(module, bench.run.lines)
    changed = any(not kept.like(before.get(key)) for key, kept in after.items())
    return changed or _layout(module) != state


def _layout(module: torch.nn.Module) -> dict[str, Any]:
    return {name: getattr(value, "shape", None) for name, value in module.state_dict().items()}


def _trained(bench: Bench, given: Inputs, module: torch.nn.Module) -> None:
    """Call a module in training; what it refuses then, such as a single sample, says nothing."""
    module.train()
    bench.listen()
    for _ in range(_CALLS):
        bench.call(_calling(module, given))


def _calling(module: torch.nn.Module, given: Inputs) -> Inputs:
    of = mapped(given, lambda tensor: tensor.detach().clone())
    return replace(of, function=module, owner=module)


def _refused(bench: Bench, one: torch.nn.Module, other: torch.nn.Module, error: Exception) -> Fault:
    """Return the fault of a state that a new module does not take. Raises NotTried where no call has changed it."""
    mine, theirs = _layout(one), _layout(other)
    key = next((name for name, shape in mine.items() if theirs.get(name, ()) != shape or name not in theirs), None)
    if key is None:
        raise NotTried(f"a new module does not accept its state: {errors.first_line(error)}")
    parts = key.split(".")
    for depth in range(len(parts) - 1, -1, -1):
        with suppress(AttributeError):
            kind = type(other.get_submodule(".".join(parts[:depth])))
            place = bound_at(kind, parts[depth], bench.run.lines, late=True)
            if place is not None:
                what = "is added to the state" if key not in theirs else "gets another shape"
                message = f"`{key}` {what} during a call; a new `{type(one).__name__}` refuses what was saved"
                return Fault(StateSurvives.code, message, place, errors.text_of(error))
    raise NotTried(f"a new module does not accept its state, but not because of a line of the program: {key}")


class _Saved:
    """A module that was trained, and a new one that was given its state."""

    def __init__(self, bench: Bench, given: Inputs, one: torch.nn.Module, other: torch.nn.Module) -> None:
        self._bench = bench
        self._given = given
        self._one, self._other = one.eval(), other.eval()
        self._expected = self._results(self._one)

    def faults(self, fresh: dict[tuple[str, str], Attribute]) -> Iterator[Fault]:
        """Yield what is lost between them, where their results differ; ``fresh`` is what the first had when new."""
        lines = self._bench.run.lines
        expected = self._expected
        self._expected = self._results(self._one)
        if not _same(expected, self._expected):
            raise NotTried("two calls in eval mode with the same inputs differ")
        theirs = {key: kept.kept() for key, kept in attributes(self._other, lines).items()}
        if self._is_given_back():
            return
        mine = attributes(self._one, lines)
        lost = [kept for key, kept in mine.items() if not kept.like(theirs.get(key)) and not _is_cache(kept, fresh)]
        culprits = self._culprits(lost[:_MOST])
        if not culprits:
            raise NotTried("a new module with its state gives different results, and no attribute explains it")
        for attribute in culprits:
            yield self._fault(attribute, is_drawn=attribute.like(fresh.get(attribute.key)))

    def _results(self, module: torch.nn.Module) -> list[torch.Tensor]:
        with torch.no_grad():
            return [*tensors(self._bench.must_pass(_calling(module, self._given)))]

    def _is_given_back(self) -> bool:
        with torch.no_grad():
            called = self._bench.call(_calling(self._other, self._given))
        return called.error is None and _same([*tensors(called.returned)], self._expected)

    def _culprits(self, lost: list[Attribute]) -> list[Attribute]:
        """Return the attributes without which the new module differs though it is given all others."""
        known = {attribute.key: holder(self._other, attribute).get(attribute.name) for attribute in lost}
        for attribute in lost:
            put(self._other, self._one, attribute)
        if not self._is_given_back():
            return []
        culprits: list[Attribute] = []
        for attribute in lost:
            holder(self._other, attribute)[attribute.name] = known[attribute.key]
            culprits += [] if self._is_given_back() else [attribute]
            put(self._other, self._one, attribute)
        return culprits

    def _fault(self, attribute: Attribute, *, is_drawn: bool) -> Fault:
        kind = type(self._one.get_submodule(attribute.part))
        place = bound_at(kind, attribute.name, self._bench.run.lines)
        if place is None:
            raise NotTried(f"`{attribute.name}` is lost, but no line of the program sets it")
        if not is_drawn and _is_reset(kind, attribute.name):
            raise NotTried(f"it keeps `{attribute.name}` between calls, which a method of its own resets")
        new = f"a new `{type(self._one).__name__}` that loads it gives different results"
        if attribute.layers:
            message = f"the layers in `{attribute.name}` are not part of the state: {new}"
            return Fault(_LAYERS, message, place, severity="warning")
        how = "is drawn or computed again in every module" if is_drawn else "is changed by calls in training mode"
        message = f"`{attribute.name}` {how}, but is not part of the state: {new}"
        learnable = any(tensor.requires_grad and tensor.is_leaf for tensor in attribute.tensors)
        return Fault(_LEARNABLE if learnable else StateSurvives.code, message, place, severity="warning")


def _is_cache(attribute: Attribute, fresh: dict[tuple[str, str], Attribute]) -> bool:
    """Say whether the program itself says of what calls have changed that it is not to be saved."""
    return attribute.unsaved and not attribute.like(fresh.get(attribute.key))


def _is_reset(kind: type, name: str) -> bool:
    """Say whether a method that resets something names an attribute."""
    methods = ((key.strip("_"), value) for base in kind.__mro__ for key, value in vars(base).items())
    named = (getattr(value, "__code__", None) for key, value in methods if any(word in key for word in _RESETTING))
    return any(code is not None and name in code.co_names for code in named)


def _same(one: list[torch.Tensor], other: list[torch.Tensor]) -> bool:
    return len(one) == len(other) and all(map(agree, one, other))
