"""Stops the loops of a training early: when enough batches were seen, and a whole accumulation cycle among them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary, ref

from drygrad.worker.alike import Passes, Trail
from drygrad.worker.graphs import leaves
from drygrad.worker.ragged import Rest, rest_of
from drygrad.worker.reading import at_hand, is_readable
from drygrad.worker.run import Instrument, Place, Run

_FEW = 16
"""So many elements are not worth a look at each pass."""
MOST = 32
"""Times the limit: a loop that runs backward passes without any step is not followed further."""
PASSES = 2
"""Of a loop around a loop that was stopped: a second epoch shows what the first has left behind."""


class Progress(Instrument):
    """Counts backward passes and optimizer steps, so that loops know what happened inside them."""

    name = "progress"

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.backwards = 0
        self.steps = 0
        self.pending = 0
        """Backward passes since the last step."""
        self.repeated = -1
        """Of the steps after which their optimizer has stepped once more, the number of the last."""
        self._last_step: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
        self.begun: set[int] = set()
        """The numbers of the nodes that backward passes began from."""
        self._leaf: tuple[Any, float] | None = None
        """A leaf of the last graph, where no optimizer has stepped, and the sum of its values then."""

    def backward_begins(self, roots: tuple[Any, ...], place: Place | None) -> None:
        """Remember what a pass begins from; count a step where the program itself has changed what it learns."""
        self.begun.update(root.grad_fn._sequence_nr() for root in roots if root.grad_fn is not None)
        if self._last_step or self.run.plan.get("forecast"):
            return
        leaf, before = next(leaves(roots), None), self._leaf
        now: tuple[Any, float] | None = None
        if leaf is not None and _can_be_summed(leaf):
            now = ref(leaf), at_hand(leaf.detach()).sum().item()
        if now is not None and before is not None and before[0]() is leaf and before[1] != now[1]:
            self.steps += 1
            self.pending = 0
        self._leaf = now

    def backward_ends(self, error: BaseException | None) -> None:
        """Count a backward pass."""
        self.backwards += 1
        self.pending += 1

    def step_ends(self, optimizer: Any) -> None:
        """Count a step."""
        self.repeated = max(self.repeated, self._last_step.get(optimizer, -1))
        self._last_step[optimizer] = self.steps
        self.steps += 1
        self.pending = 0


class Loops:
    """What the loops of a run share."""

    def __init__(self, run: Run, progress: Progress) -> None:
        self.run = run
        self.progress = progress
        compares = any(run.plan.get(name) for name in ("forecast", "experiments", "compare"))
        self.trail = None if compares else Trail(run)
        """What loops that are alike are known by; not where each operation counts."""
        self.limit = max(1, int(run.plan.get("loop_limit") or 3))
        self.follows_steps = bool(run.plan.get("forecast"))
        """Whether a pass must follow a step: what an optimizer keeps is then there beside activations."""
        self.fetching: Batches | None = None
        """The loader whose batch was fetched last."""
        self.passes: dict[tuple[str, int], int] = {}
        """How many passes the last begun of each loop has made."""
        self.stopped: set[tuple[str | None, int]] = set()
        """The loops that were stopped before: of another time it is the first batches that tell."""
        self._ended: set[tuple[str | None, int]] = set()

    def loop(self, iterable: Any, line: int, runs_out: bool, is_steady: bool) -> Any:
        """Return what the statement at a line iterates over, bounded; None is a ``while`` loop.

        One that ``runs_out`` ends in no other way than with its last element; it may be left if it merely counts.
        In the midst of one that ``is_steady`` no other code of the program goes on.
        """
        if type(iterable) in (list, tuple, dict, set, range, str) and len(iterable) <= min(self.limit, _FEW):
            return iterable
        caller = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
        where = caller.f_code.co_filename, line
        may_be_left = runs_out and isinstance(getattr(iterable, "iterable", iterable), range)  # tqdm's has that name
        passes = Passes(self.trail, where, may_be_left, is_steady) if self.trail else None
        return Loop(self, iterable, where, passes)

    def last(self, place: tuple[str | None, int], rest: Rest) -> Rest:
        """Return what makes the last, shorter batch of a loop that is stopped; None where it has been seen."""
        if rest is None or place in self._ended:
            return None
        self._ended.add(place)
        self.run.note(f"the loop at {self.run.where(*place)} continued with its last batch, which is shorter")
        return rest

    def stop(self, place: tuple[str | None, int], count: int, batches: Batches | None, total: int | None) -> None:
        """Write down that a loop was stopped."""
        self.run.loops_stopped += 1
        self.stopped.add(place)
        noun = "batches" if batches is not None else "passes"
        self.leave(place, count, total, noun)

    def leave(self, place: tuple[str | None, int], count: int, total: int | None, noun: str) -> None:
        """Write down that a loop is left, of which nothing outside knows how many passes it has made."""
        path, line = place
        self.run.cuts.add(line)
        truncated = self.run.result.setdefault("truncated", [])
        if any((entry["line"], entry["path"]) == (line, path) for entry in truncated):
            return
        truncated.append({"line": line, "path": path, "iterations": count})
        of = f" of {total:,}" if total is not None else ""
        self.run.note(f"the loop at {self.run.where(path, line)} was stopped after {count}{of} {noun}")


class _Bound:
    """The decision whether a loop has seen enough."""

    def __init__(self, loops: Loops, place: tuple[str | None, int] | None) -> None:
        self.loops = loops
        self._limit = min(loops.limit, PASSES) if place in loops.stopped else loops.limit
        self.count = 0
        self._idle = 0
        """How many passes there were before the first that trains."""
        progress = loops.progress
        self._steps, self._backwards, self._stopped = progress.steps, progress.backwards, loops.run.loops_stopped

    def enough(self, over_data: bool) -> bool:
        """Say whether the loop should stop before its next pass."""
        progress, limit = self.loops.progress, self._limit
        around = self.loops.run.loops_stopped > self._stopped
        steps, trains = progress.steps - self._steps, progress.backwards > self._backwards
        if not steps and not trains:
            self._idle = self.count
        count = self.count - (self._idle if steps or trains else 0)
        if count < (min(limit, PASSES) if around else limit) or (count == limit and self._rises()):
            return False
        if steps and not trains and progress.repeated < self._steps:
            return False  # it goes through several optimizers, each of which has its part in one step
        if steps == 1 and not around and self.loops.follows_steps:
            return progress.pending > 0 or count >= MOST * limit
        if steps:
            return steps >= 2 or progress.pending == 0 or around
        if trains:
            return count >= MOST * limit
        return over_data or around

    def _rises(self) -> bool:
        """Say whether a pass more may tell what grows."""
        rises = self.loops.run.rises
        return rises is not None and self.loops.progress.steps > self._steps and rises()


class Loop:
    """A ``for`` or ``while`` statement of the user's."""

    __slots__ = ("_bound", "_ended", "_iterable", "_iterator", "_loops", "_over", "_passes", "_where")

    def __init__(self, loops: Loops, iterable: Any, where: tuple[str, int], passes: Passes | None) -> None:
        self._loops = loops
        self._where = where
        self._passes = passes
        self._bound = _Bound(loops, where)
        self._iterable = iterable
        self._ended = False
        self._iterator = iter(iterable) if iterable is not None else iter(())
        self._over: Batches | None = iterable if isinstance(iterable, Batches) else None

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        """Return the next element, unless enough were seen."""
        loops, bound = self._loops, self._bound
        if bound.count >= 2 and bound.enough(self._over is not None):
            return self._last()
        if bound.count == 0:
            loops.fetching = None
            value = next(self._iterator)
            self._over = loops.fetching
        else:
            value = self._next()
        bound.count += 1
        loops.passes[self._where] = bound.count
        return value

    def _next(self) -> Any:
        """Return the next element, unless the passes are alike and the loop may be left."""
        passes, count = self._passes, self._bound.count
        if passes is None:
            return next(self._iterator)
        total = _length(self._iterable)
        if passes.follow(count, sys._getframe(2), count + 1 == total) and total is not None and count < total:  # pyright: ignore
            passes.end()
            self._loops.leave(self._where, count, total, "passes, which were alike")
            raise StopIteration
        try:
            return next(self._iterator)
        except StopIteration:
            passes.end()
            raise

    def _last(self) -> Any:
        """Return the last element where it is a shorter batch, once; else stop."""
        if not self._ended:
            self._ended = True
            if self._over is not None:
                self._over.ends = True
                with suppress(StopIteration):
                    return next(self._iterator)
            total = _length(self._iterable)
            if total is not None and total > self._bound.count:
                rest = self._loops.last(self._where, rest_of(self._iterable))
                if rest is not None:
                    return rest()
        self._stop()
        raise StopIteration

    def more(self) -> bool:
        """Say whether a ``while`` loop may go on."""
        bound = self._bound
        if bound.count >= 2 and bound.enough(over_data=False):
            self._stop()
            return False
        if bound.count and self._passes is not None:
            self._passes.follow(bound.count, sys._getframe(1))  # pyright: ignore[reportPrivateUsage]
        bound.count += 1
        self._loops.passes[self._where] = bound.count
        return True

    def over(self) -> bool:
        """Hear that a ``while`` loop ends, its condition does not hold any more."""
        if self._passes is not None:
            self._passes.end()
        return False

    def __del__(self) -> None:
        """End what was left by a jump or an error: the statement has let go of what it iterated over."""
        self.over()

    def _stop(self) -> None:
        total = self._over.total if self._over is not None else _length(self._iterable)
        if total is None or total > self._bound.count:
            self._loops.stop(self._where, self._bound.count, self._over, total)


class Batches:
    """The batches of a loader, bounded whoever asks for them."""

    def __init__(self, loops: Loops, batches: Any, total: int | None, place: Place | None, rest: Rest = None) -> None:
        self._loops = loops
        self._rest = rest
        self._bound = _Bound(loops, (place.path, place.line) if place else None)
        self._batches = batches
        self.place = place
        """Where the user asks for them."""
        self.total = total
        self.ends = False
        """Whether the loop around has seen enough: what comes is the last batch, if any."""

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        """Return the next batch, unless enough were seen."""
        loops, bound = self._loops, self._bound
        if self.ends or bound.enough(over_data=True):
            where = (self.place.path, self.place.line) if self.place else (None, 0)
            if self.total is None or self.total > bound.count:
                last, self._rest = loops.last(where, self._rest), None
                if last is not None:
                    return last()
                loops.stop(where, bound.count, self, self.total)
            raise StopIteration
        value = next(self._batches)
        loops.fetching = self
        bound.count += 1
        return value

    def __len__(self) -> int:
        return len(self._batches)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batches, name)


def _can_be_summed(leaf: Any) -> bool:
    """Say whether a leaf holds real numbers now: FSDP frees the memory of parameters between two uses."""
    return is_readable(leaf) and leaf.is_floating_point() and leaf.untyped_storage().nbytes() >= leaf.nbytes


def _length(iterable: Any) -> int | None:
    try:
        return len(iterable)
    except (TypeError, AttributeError, NotImplementedError):
        return None
