"""The order of a training loop as it ran: backward, clearing, steps, schedulers, autocast and scaler."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import wraps
from typing import Any, ClassVar, NamedTuple

import torch

from drygrad.worker.reading import address_of, is_plain
from drygrad.worker.run import Fault, Instrument, Place, Run
from drygrad.worker.watch import Op

_UNSCALE = "aten::_amp_foreach_non_finite_check_and_unscale_"
_KEEPS_GRADIENT = frozenset(
    {_UNSCALE, *(f"aten::{n}" for n in "mul_ _foreach_mul_ clamp_ _foreach_clamp_min_".split())}
)
_EVENTS = 2_000
_STEPS = ("step", "empty step", "step by scaler", "tried")


class Event(NamedTuple):
    """One thing that a training loop does, where, and to which optimizer or module (by identity)."""

    kind: str
    place: Place | None
    subject: int | None = None


class Training(Instrument):
    """Notes the events of a training loop, and says where their order throws gradients away or mixes them."""

    name: ClassVar[str] = "training"

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._events: list[Event] = []
        self._originals: list[tuple[type, str, Any]] = []
        self._gradients: dict[int, list[tuple[Any, int]]] = {}
        self._kept: dict[int, list[int]] = {}
        self._parameters: dict[int, frozenset[int]] = {}
        self._watched: set[int] = set()
        self._written: set[int] = set()
        self._by_scaler = False
        self._inside = 0
        self._half: Place | None = None
        self._scaled = False
        self._stopped = 0

    def start(self) -> None:
        """Listen to what torch has no hooks for."""
        from torch.optim.lr_scheduler import LRScheduler

        self._listen(torch.optim.Optimizer, "zero_grad", self._cleared)
        self._listen(torch.nn.Module, "zero_grad", self._cleared)
        self._listen(torch.amp.GradScaler, "scale", self._scales)
        self._listen(torch.amp.GradScaler, "step", self._scaler_steps, self._scaler_stepped)
        self._listen(torch.autocast, "__enter__", self._autocasts)
        self._listen(LRScheduler, "step", self._schedules)

    def _listen(
        self, kind: type, method: str, before: Callable[[Any], None], after: Callable[[], None] = lambda: None
    ) -> None:
        original = getattr(kind, method)

        @wraps(original)
        def heard(receiver: Any, *args: Any, **kwargs: Any) -> Any:
            before(receiver)
            try:
                return original(receiver, *args, **kwargs)
            finally:
                after()

        self._originals.append((kind, method, original))
        setattr(kind, method, heard)

    def _note(self, kind: str, place: Place | None, subject: int | None = None) -> None:
        """Note an event, unless it is in a closure: there an optimizer has backward run as often as it needs."""
        if len(self._events) < _EVENTS and not self._inside:
            if self.run.loops_stopped > self._stopped:
                self._stopped = self.run.loops_stopped
                self._events.append(Event("stopped", None))
            self._events.append(Event(kind, place, subject))

    def _cleared(self, receiver: Any) -> None:
        self._note("clear", self.run.lines.caller(), self._known(receiver))

    def _known(self, owner: Any) -> int:
        """Learn which parameters an optimizer or a module has; return its identity."""
        groups: list[Any] = getattr(owner, "param_groups", None) or [{"params": owner.parameters()}]
        self._parameters[id(owner)] = frozenset(id(p) for group in groups for p in group["params"])
        return id(owner)

    def _share(self, first: Event, second: Event) -> bool:
        """Say whether two events are of the same parameters."""
        mine, others = (self._parameters.get(e.subject or 0, frozenset()) for e in (first, second))
        return not mine.isdisjoint(others)

    def _scales(self, scaler: Any) -> None:
        if scaler.is_enabled():
            self._scaled = True
            self._note("scale", self.run.lines.caller())

    def _scaler_steps(self, scaler: Any) -> None:
        self._by_scaler = True
        self._note("tried", self.run.lines.caller())

    def _scaler_stepped(self) -> None:
        self._by_scaler = False

    def _autocasts(self, context: Any) -> None:
        if context._enabled and context.fast_dtype is torch.float16 and self._half is None:
            self._half = self.run.lines.caller()

    def _schedules(self, scheduler: Any) -> None:
        if not getattr(scheduler, "_is_initial", False) and getattr(scheduler, "_step_count", 1):
            self._note("schedule", self.run.lines.caller(), id(scheduler.optimizer))

    def wants(self, hook: str, func: Any, phase: str) -> bool:
        """Ask for what writes."""
        return _writes(func._schema.name)

    def after_op(self, op: Op, result: Any) -> None:
        """Hear of gradients that are unscaled, or written by hand."""
        if op.name == _UNSCALE:
            self._note("unscale", None)
        if self._watched and op.phase == "forward" and not self._merely_scales(op):
            self._written |= self._watched.intersection(map(_memory, filter(is_plain, op.tensors())))

    def _merely_scales(self, op: Op) -> bool:
        """Say whether an operation scales or clips what backward has just added; after a step it does away with it."""
        return op.name in _KEEPS_GRADIENT and any(e.kind == "backward" for e in _since(self._events, _is_step))

    def backward_begins(self, roots: tuple[Any, ...], place: Place | None) -> None:
        """Note a backward pass, and whether autocast is on."""
        self._note("backward", place)
        active = [root.device.type for root in roots if torch.is_autocast_enabled(root.device.type)]
        if active:
            self.run.report(
                Fault(
                    "DG707",
                    "backward() runs under autocast, which is meant for forward and loss only",
                    place,
                    facts={"device": active[0]},
                )
            )

    def step_begins(self, optimizer: Any, place: Place | None) -> None:
        """Note a step, and whether there is anything to apply, and whether it has been applied before."""
        parameters: list[Any] = [p for group in optimizer.param_groups for p in group["params"]]
        gradients = [p.grad for p in parameters if p.grad is not None]
        kind = "step" if gradients else "empty step"
        self._note(f"{kind} by scaler" if self._by_scaler else kind, place, self._known(optimizer))
        before = self._gradients.get(id(optimizer), [])
        after = [(weakref.ref(gradient), gradient._version) for gradient in gradients]
        if before and len(before) == len(after):
            same = all(_went_on(old, new) and _memory(new[0]()) not in self._written for old, new in zip(before, after))
            self._kept.setdefault(id(optimizer), []).append(len(self._events) if same else 0)
        self._written -= {_memory(gradient) for gradient in gradients}
        self._gradients[id(optimizer)] = after
        self._watched = {_memory(g()) for kept in self._gradients.values() for g, _ in kept if g() is not None}

        self._inside += 1

    def step_ends(self, optimizer: Any) -> None:
        """Note again what happens."""
        self._inside = max(0, self._inside - 1)

    def finish(self) -> None:
        """Judge the order of the events."""
        for kind, method, original in self._originals:
            setattr(kind, method, original)
        for position, event in enumerate(self._events):
            fault = self._judge(event, self._events[:position], self._events[position + 1 :])
            if fault is not None:
                self.run.report(fault)
        if self._half is not None and not self._scaled:
            self._half_unscaled(self._half)

    def _judge(self, event: Event, before: list[Event], after: list[Event]) -> Fault | None:
        if event.kind == "empty step":
            return _empty_step(event, before, after)
        if event.kind == "clear":
            return _cleared_between(event, before, after, self._share)
        if event.kind == "schedule":
            return _scheduled_early(event, before, after)
        if event.kind == "step":
            return self._not_cleared(event, before, after) or _bypasses(event, before)
        return None

    def _not_cleared(self, step: Event, before: list[Event], after: list[Event]) -> Fault | None:
        if len(before) + 1 not in self._kept.get(step.subject or 0, []):
            return None
        since = _since(before, lambda e: e.subject == step.subject and e.kind.startswith("step"))
        backwards = [e for e in _since(since, _is_step) if e.kind == "backward"]
        if not backwards or any(e.kind == "empty step" or self._clears(e, step) for e in since):
            return None
        cleared = next((e for e in (*reversed(before), *after) if self._clears(e, step)), None)
        return Fault(
            "DG703",
            "the gradients were not cleared since the last step, so the next one applied the sum of both batches",
            backwards[0].place,
            related=[
                *_at("the step applied them here", step.place),
                *_at("they are only cleared here", cleared.place if cleared is not None else None),
            ],
        )

    def _clears(self, event: Event, step: Event) -> bool:
        return event.kind == "clear" and self._share(event, step)

    def _half_unscaled(self, half: Place) -> None:
        steps = [e for e in self._events if e.kind == "step"]
        backward = next((e for e in self._events if e.kind == "backward"), None)
        if steps and backward is not None:
            self.run.report(
                Fault(
                    "DG724",
                    "the float16 loss was not scaled, so gradients below 6e-8 become zero",
                    backward.place,
                    related=_at("float16 autocast begins here", half),
                )
            )


def _empty_step(step: Event, before: list[Event], after: list[Event]) -> Fault | None:
    """A step that finds no gradient, though backward runs elsewhere: before it, or after it; not inside it."""
    since = _since(before, lambda e: e.kind in ("step", "empty step") and e.subject == step.subject)
    if any(e.kind == "backward" for e in since):
        return None
    following = next((e for e in after if e.kind in ("backward", "step", "empty step", "clear")), None)
    if following is None or following.kind != "backward" or following.place == step.place:
        return None
    return Fault(
        "DG701",
        "step() ran before backward(), so there was no gradient to apply",
        step.place,
        related=_at("backward() only runs here", following.place),
    )


def _cleared_between(
    clear: Event, before: list[Event], after: list[Event], share: Callable[[Event, Event], bool]
) -> Fault | None:
    since = _since(before, _is_step)
    backward = next((e for e in reversed(since) if e.kind == "backward"), None)
    cleared = any(e.kind in ("clear", "stopped") for e in _since(since, lambda e: e.kind == "backward"))
    following = next((e for e in after if e.kind == "backward" or e.kind in _STEPS), None)
    began = next((e.kind for e in [*before, *after] if e.kind == "backward" or e.kind in _STEPS), "")
    if backward is None or cleared or following is None or began == "empty step":
        return None
    if following.kind == "empty step" and share(clear, following):
        return Fault(
            "DG708",
            "the gradients were cleared between backward() and step(), so the step had nothing to apply",
            clear.place,
            related=[*_at("computed here", backward.place), *_at("step() is called here", following.place)],
        )
    till, step = next(((i, e) for i, e in enumerate(after) if e.kind.startswith("step") and share(clear, e)), (0, None))
    passes = {e.place for e in (*after[:till], backward) if e.kind == "backward"}
    if step is None or following.kind != "backward" or len(passes) > 1:
        return None
    return Fault(
        "DG704",
        "the previous micro-batch's gradients were cleared without a step; only the last micro-batch counts",
        clear.place,
        related=[*_at("backward() computed them here", backward.place), *_at("step() is called here", step.place)],
    )


def _scheduled_early(event: Event, before: list[Event], after: list[Event]) -> Fault | None:
    stepped = any(e.kind == "tried" or (e.kind in _STEPS and e.subject == event.subject) for e in before)
    step = next((e for e in after if e.kind in _STEPS and e.subject == event.subject), None)
    if stepped or step is None or any(e.kind == "schedule" for e in before):
        return None
    return Fault(
        "DG709",
        "the scheduler stepped before the optimizer, so the first learning rate was never used",
        event.place,
        related=_at("the optimizer steps here", step.place),
    )


def _bypasses(step: Event, before: list[Event]) -> Fault | None:
    since = _since(before, lambda e: e.kind in _STEPS and e.subject == step.subject)
    kinds = [e.kind for e in since]
    if "unscale" in kinds or not 0 < kinds.count("backward") <= kinds.count("scale"):
        return None
    scale = next(e for e in since if e.kind == "scale")
    return Fault(
        "DG722",
        "optimizer.step() applied gradients that were still scaled; call scaler.step(optimizer)",
        step.place,
        related=_at("the loss is scaled here", scale.place),
    )


def _is_step(event: Event) -> bool:
    return event.kind in _STEPS


def _since(events: list[Event], ends: Callable[[Event], bool]) -> list[Event]:
    """Return the last events, those after the last that ``ends`` holds for."""
    start = next((i + 1 for i in range(len(events) - 1, -1, -1) if ends(events[i])), 0)
    return events[start:]


def _at(message: str, place: Place | None) -> list[tuple[str, Place]]:
    return [(message, place)] if place is not None else []


def _went_on(old: tuple[Any, int], new: tuple[Any, int]) -> bool:
    """Say whether a gradient is the one of the step before, added to since."""
    return old[0]() is new[0]() and new[1] > old[1]


def _writes(name: str) -> bool:
    return name.endswith("_") or name.startswith("aten::_foreach_")


def _memory(tensor: Any) -> int:
    return address_of(tensor) or id(tensor)  # sparse gradients have none
