"""Passes of a loop that are alike: the same lines have the same operations compute with tensors of the same shapes.

After some of them nothing new shows. From there on the run *rests*: operations are executed without the instruments
until one comes that the pass before did not have. Where a run could be repeated, it *sleeps*: the mode that tells of
operations is taken away until the program comes to a block that this loop has not had, goes backward or takes a step;
now and then a pass is heard in between. Where a pass is much work, and nothing depends on how many there are, the
loop is left.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Hashable, Iterable
from itertools import islice
from types import FrameType, ModuleType
from typing import Any, cast

import torch

from drygrad.worker.run import Instrument, Place, Run
from drygrad.worker.watch import Op

ALIKE = 3
"""So many passes have to be alike before anything follows from that."""
ENOUGH = 2000
"""So many operations a loop has had under the instruments before the run rests in it."""
MANY = 16
"""So many passes have to be alike before the run sleeps: it hears of some of those that follow, and can be repeated."""
MUCH = 10_000.0
"""So much work a loop has been before it is left, in operations; a large one counts as several."""
_LARGE = 50_000
"""So many elements of a result are the work of an operation on few."""
_MOST = 50_000
_COUNTED: tuple[Any, ...] = (list, dict, set, deque)
_DEPTH = 3
_WIDTH = 100
_OBJECTS = 2000
_FIRST, _FACTOR = 16, 4
"""Of the passes that are slept through: which one is the first to be heard, and how many times later the next comes."""
_is_lazy: Any = torch.nn.parameter.is_lazy  # pyright: ignore
_number: Any = torch._C._autograd._get_sequence_nr  # pyright: ignore

Key = tuple[Any, ...]
"""An operation, where it is called, and the types and shapes of its operands."""
Where = tuple[str, int]
Mark = tuple[int, int, int, int, bool]
"""How far the run is: the operations, backward passes, steps, nodes of graphs, and whether it records any."""


def key(here: Any, func: Any, args: tuple[Any, ...]) -> Key:
    """Return what two operations have in common that are alike."""
    return (here, id(func), *map(_form, args))


def _form(value: Any) -> Any:
    if type(value) is torch.nn.Parameter or _is_lazy(value):
        return id(value)  # one layer is not like another, and a lazy one has no shape yet
    if isinstance(value, torch.Tensor):
        return value.dtype, value.shape, value.requires_grad
    if isinstance(value, (list, tuple)):
        items = cast("list[Any]", value)
        return tuple(item if type(item) is int else _form(item) for item in items)  # the sizes of a shape
    return value.__class__


class Trail(Instrument):
    """Keeps what operations there were, in their order; says whether the run rests."""

    name = "trail"

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._keys: list[Key] = []
        self._dropped = 0
        """How many operations came before the first that is kept."""
        self._known: frozenset[Key] = frozenset()
        self.backwards = self.steps = 0
        self.work = 0.0
        self.rested: dict[Where, frozenset[Key]] = {}
        """The loops in which the run has rested, and the operations that it has known there."""
        self.clock = 0
        """Counts the loops that have begun."""
        self._entered: dict[Hashable, int] = {}
        """The blocks that have run, and the time of the clock when they last did."""
        self._asleep: tuple[int, int] | None = None
        """While the run sleeps: the thread, and the time when the loop in which it does has begun."""
        run.wake = self.wake
        self.left: dict[Where, tuple[Key, ...]] = {}
        """The loops that it has left, and the passes that it has left them after."""

    def wants(self, hook: str, func: Any, phase: str) -> bool:
        """Ask for what the program itself computes; of gradients it is enough to know that there are some."""
        return phase == "forward"

    def after_op(self, op: Op, result: Any) -> None:
        """Keep an operation."""
        keys = self._keys
        keys.append(key(op.instruction, op.func, op.args))
        self.work += 1.0
        if isinstance(result, torch.Tensor) and result.numel() >= _LARGE:
            self.work += result.numel() / _LARGE
        if len(keys) > _MOST:
            self._dropped += len(keys)
            keys.clear()

    def backward_begins(self, roots: tuple[Any, ...], place: Place | None) -> None:
        """Listen again: here begins what a loop without gradients does not have."""
        self.backwards += 1
        self.wake()

    def step_begins(self, optimizer: Any, place: Place | None) -> None:
        """Listen again, as there."""
        self.steps += 1
        self.wake()

    def mark(self) -> Mark:
        """Return how far the run is."""
        count = self._dropped + len(self._keys)
        return count, self.backwards, self.steps, _number(), torch.is_grad_enabled()

    def since(self, mark: Mark) -> tuple[Key, ...] | None:
        """Return the operations since then, in their order; None where they are not kept, or others came with them."""
        first, now = mark[0] - self._dropped, self.mark()
        if first < 0 or now[1:3] != mark[1:3] or now[4] != mark[4] or (now[4] and now[3] != mark[3]):
            return None  # without gradients, autocast alone records graphs: of the weights that it casts
        return tuple(self._keys[first:])

    def begin(self) -> int:
        """Return the time when a loop begins."""
        self.clock += 1
        return self.clock

    def rest(self, where: Where, keys: tuple[Key, ...]) -> None:
        """Let the operations of a loop that are like these, or like those that it had before, go unheard."""
        self._known = self.rested[where] = self.rested.get(where, frozenset()).union(keys)
        self.run.resting = self.knows

    def sleep(self, begun: int) -> None:
        """Do so without the mode that tells of operations, in a loop that began at a time of the clock."""
        if self.run.leave():
            self._asleep = threading.get_ident(), begun
            if self.run.slept is None:
                self.run.slept = len(self.run.faults)

    @property
    def may_sleep(self) -> bool:
        """Whether the run could be repeated without sleep, if something was found after it."""
        return bool(self.run.plan.get("may_repeat"))

    @property
    def sleeps(self) -> bool:
        """Whether the run sleeps."""
        return self._asleep is not None

    def enters(self, block: Hashable) -> None:
        """Take note of a block that runs: one that the loop has not had is where the run listens again."""
        asleep = self._asleep
        if asleep is not None and self._entered.get(block, -1) < asleep[1]:
            self.wake()
        self._entered[block] = self.clock

    def knows(self, here: Any, func: Any, args: tuple[Any, ...]) -> bool:
        """Say whether an operation is like one of the last pass; the run listens again from one that is not."""
        if key(here, func, args) in self._known:
            return True
        self.wake()
        return False

    def wake(self) -> None:
        """Listen again to everything."""
        if self._asleep is not None:
            if self._asleep[0] != threading.get_ident():
                return
            self._asleep = None
            self.run.come_back()
        if self.run.resting is not None:
            self.run.resting = None
            self.run.tell("passed_over")


class Passes:
    """The passes of one loop."""

    def __init__(self, trail: Trail, where: Where, may_be_left: bool, is_steady: bool) -> None:
        self._trail = trail
        self._where = where
        self._is_steady = is_steady
        self._begun = trail.begin()
        self._slept, self._next = 0, _FIRST
        """How many passes were slept through, and the number of the one to hear next."""
        self._may_be_left = may_be_left and not torch.is_grad_enabled()
        self._mark = trail.mark()
        self._last: tuple[Key, ...] | None = None
        self._alike = 1
        self._operations = 0
        self._heard = trail.work
        self._work = self._each = 0.0
        """The work of all passes, and that of the last one that was heard."""
        self._sizes: tuple[int, ...] | None = None
        self._rests = False
        self._within = trail.run.resting is not None
        """Whether the run rests in a loop around this one."""

    def follow(self, count: int, frame: FrameType, is_last: bool = False) -> bool:
        """Take note that a pass has ended, and rest where that is due; say whether the loop may be left here.

        The last pass is heard, if it is known which one that is.
        """
        trail = self._trail
        if trail.run.resting is None:
            self._within = False
            return self._listened(count, frame)
        if self._rests:
            self._work += self._each
            if trail.sleeps and self._is_due(is_last):
                trail.wake()
                self._rests, self._mark, self._heard = False, trail.mark(), trail.work
                return False
            return self._may_leave(frame)
        if not self._within:
            trail.wake()  # it rested in a loop inside this one, which is over
        return False

    def _is_due(self, is_last: bool) -> bool:
        """Say whether the pass that begins is to be heard, of those that are slept through."""
        self._slept += 1
        if self._slept == self._next:
            self._next *= _FACTOR
            return True
        recorded = torch.is_grad_enabled() and _number() != self._mark[3]
        return is_last or recorded

    def _listened(self, count: int, frame: FrameType) -> bool:
        trail = self._trail
        keys = None if self._rests else trail.since(self._mark)  # it rested until something new came
        self._rests, self._mark = False, trail.mark()
        self._each, self._heard = trail.work - self._heard, trail.work
        self._work += self._each
        self._operations += len(keys or ())
        self._alike = self._alike + 1 if keys and keys == self._last else 1
        self._last = keys
        if self._may_leave(frame):
            return True
        if keys and self._alike >= ALIKE:
            self._rest(count, keys)
        return False

    def _may_leave(self, frame: FrameType) -> bool:
        """Say whether passes are so much work that it is not worth going on, or known from another time."""
        keys, left = self._last, self._trail.left
        is_known = left.get(self._where) == keys
        near = is_known or (self._alike >= ALIKE - 1 and self._work + self._each >= MUCH)
        if not self._may_be_left or not keys or not near:
            return False
        before, self._sizes = self._sizes, _sizes(frame)
        self._may_be_left = before in (None, self._sizes)
        if before is None or not self._may_be_left or not (is_known or self._alike >= ALIKE):
            return False
        left[self._where] = keys
        return True

    def _rest(self, count: int, keys: tuple[Key, ...]) -> None:
        trail = self._trail
        if trail.run.device == "cuda" or trail.run.plan.get("repeats"):
            return  # on a GPU, an index out of range has to be seen before it ends all work there
        may_sleep = self._is_steady and trail.may_sleep
        known = trail.rested.get(self._where, frozenset()).issuperset(keys)
        if known or self._operations >= ENOUGH or (may_sleep and self._alike >= MANY):
            if self._where not in trail.rested:
                where = trail.run.where(*self._where)
                trail.run.note(f"the loop at {where} went on without instruments after {count} passes: they were alike")
            self._rests = True
            trail.rest(self._where, keys)
            if may_sleep:
                trail.sleep(self._begun)

    def end(self) -> None:
        """Take note that the loop is over."""
        if self._rests:
            self._trail.wake()


def _sizes(frame: FrameType) -> tuple[int, ...]:
    """Return how much the containers hold that a function can reach: what grows there may be counted later."""
    found: list[int] = []
    seen: set[int] = set()
    level: list[Any] = [*frame.f_locals.values(), *frame.f_globals.values()]
    for _ in range(_DEPTH):
        below: list[Any] = []
        for value in level:
            if id(value) in seen or len(seen) > _OBJECTS:
                continue
            seen.add(id(value))
            found += [kind.__len__(value) for kind in _COUNTED if isinstance(value, kind)]
            below += _held_by(value)
        level = below
    return tuple(found)


def _held_by(value: Any) -> Iterable[Any]:
    """Return what a container or an object of a class of Python's holds."""
    if isinstance(value, (torch.Tensor, type, ModuleType)):
        return ()
    held: Any = value
    if type(value) in (list, tuple):
        return held[:_WIDTH]
    if not isinstance(value, dict):
        held = getattr(value, "__dict__", None)
    return islice(dict.values(held), _WIDTH) if isinstance(held, dict) else ()  # pyright: ignore
