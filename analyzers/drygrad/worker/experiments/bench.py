"""What a relation works with: the target and its inputs, made anew, and calls of it under the instruments."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Callable

import torch
from torch.nn.parameter import is_lazy

from drygrad.worker import errors, inputs
from drygrad.worker.execute import Execution, Give, finish, seed_all
from drygrad.worker.experiments.relation import NotTried
from drygrad.worker.run import Fault, Instrument, Place


@dataclass
class Inputs:
    """The target, and what it is called with."""

    function: Callable[..., Any]
    owner: Any
    """What a method is called on; None for a function."""
    positional: list[Any]
    named: dict[str, Any]
    names: list[str] = field(default_factory=lambda: [])
    """How the target calls what is passed, the owner (``self``) included, in the order of ``values``."""
    samples_axis: int | None = None
    """Which axis of what is passed the target's text says to count samples."""

    @property
    def values(self) -> list[Any]:
        """The owner, if there is one, and the arguments, by position and by name."""
        return [*([self.owner] if self.owner is not None else []), *self.positional, *self.named.values()]

    def tensors(self) -> list[torch.Tensor]:
        """Return the tensors among the arguments themselves; those within others are left out."""
        return [v for v in (*self.positional, *self.named.values()) if isinstance(v, torch.Tensor)]


def modules(given: Inputs) -> list[torch.nn.Module]:
    """Return the modules among the inputs, and the target where it is one."""
    return [value for value in (given.function, *given.values) if isinstance(value, torch.nn.Module)]


@dataclass
class Called:
    """What a call has come to: what it returned, or the error that it ended with."""

    returned: Any = None
    error: BaseException | None = None
    place: Place | None = None
    """Where the error left the user's text."""


class Bench:
    """One target with its inputs, in the process of one experiment."""

    def __init__(self, execution: Execution, names: Mapping[str, Any], target: str, give: Give) -> None:
        self.execution = execution
        self.run = execution.run
        self.plan = execution.plan
        self._seconds = self.until = math.inf
        """When, on the monotonic clock, the relation has to be done."""
        self._begun = 0.0, 0.0
        self._names = dict(names)
        self._target = target
        self._give = give
        self._made: Inputs | None = None

    def allot(self, seconds: float, until: float) -> None:
        """Say how long the relation that begins now may compute, and when, on the clock, it has to be done."""
        self._seconds, self.until = seconds, until
        self._begun = time.process_time(), time.monotonic()

    @property
    def spent(self) -> float:
        """The share of the relation's time that is spent: what it has not told by the end is lost."""
        computed, passed = time.process_time() - self._begun[0], time.monotonic() - self._begun[1]
        return max(computed / self._seconds, passed / (self.until - self._begun[1]))

    @property
    def target(self) -> str:
        """The qualified name of the target; empty for a script."""
        return self._target

    @property
    def seed(self) -> int:
        """The seed of the run."""
        return int(self.plan.get("seed") or 0)

    @property
    def invented(self) -> bool:
        """Whether inputs were invented, not the program's own: a value of theirs proves nothing by itself."""
        return self._asked.get("invented") is True

    @property
    def unprepared(self) -> bool:
        """Whether the state of an input may not be the one that the program has it in."""
        return self._asked.get("unprepared") is True

    @property
    def trains(self) -> bool:
        """Whether the target goes backward by itself, as a step or a loop of training does."""
        return self._asked.get("trains") is not False

    @property
    def _asked(self) -> dict[str, Any]:
        return self.plan.get("experiments") or {}

    def prepare(self) -> None:
        """Make the inputs once for all experiments: what is imported for that, and computed, is there in each."""
        self._made = self._inputs()

    def glance(self) -> Inputs:
        """Return the inputs that are made for all, to be looked at. Raises NotTried where a module is not whole yet."""
        self._made = self._made or self._inputs()
        modules = [value for value in self._made.values if isinstance(value, torch.nn.Module)]
        if any("_parameters" not in vars(module) for module in modules):
            raise NotTried("its module is still being constructed")
        if any(
            is_lazy(held) for module in modules for held in (*torch.nn.Module.parameters(module), *module.buffers())
        ):
            raise NotTried("its lazy layers get their sizes on the first call")
        return self._made

    def inputs(self) -> Inputs:
        """Return the inputs as the run made them, then made anew. Raises NotTried as ``glance`` does."""
        given, self._made = self.glance(), None
        return given

    def _inputs(self) -> Inputs:
        seed_all(self.seed)
        owner, values = self._give()
        function = self.execution.resolved(self._names, self._target, owner)
        told = [{"name": "self"}] if owner is not None else []
        described = inputs.described(function, [*((spec, owner) for spec in told), *values])
        positional, named = inputs.arguments(values)
        names = [entry["name"] for entry in described]
        return Inputs(function, owner, positional, named, names, self._asked.get("samples_axis"))

    def listen(self, *instruments: Instrument) -> None:
        """Let only these instruments hear of what happens from now on."""
        self.run.listen([*instruments])

    def watch(self, given: Inputs, *more: Instrument) -> None:
        """Let all instruments of a run, and perhaps more, hear of what happens, as if the run began now."""
        self.listen(*self.execution.instruments, *more)
        self.run.tell("begins", self._names, dict(zip(given.names, given.values)))

    def call(self, given: Inputs, seed: int | None = None) -> Called:
        """Call the target, seeded as in the run or otherwise; the instruments that listen hear of it."""
        seed_all(self.seed if seed is None else seed)
        self.run.op = None
        try:
            returned = finish(given.function(*given.positional, **given.named), self.execution.loops.limit)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever the user's code raises is what comes of it
            return Called(error=error, place=self.run.lines.place_of_error(error))
        return Called(returned)

    def must_pass(self, given: Inputs, seed: int | None = None) -> Any:
        """Call the target and return what it returns. Raises NotTried where it fails, which the run did not."""
        called = self.call(given, seed)
        if called.error is not None:
            kind, said = type(called.error).__name__, errors.first_line(called.error)
            raise NotTried(errors.shortened(f"a second call ends with {kind}: {said}"))
        return called.returned

    def explained(self, called: Called) -> Fault | None:
        """Return the fault that an instrument recognizes behind the error of a call."""
        if called.error is None:
            return None
        return errors.explained(self.execution.instruments, called.error, called.place)
