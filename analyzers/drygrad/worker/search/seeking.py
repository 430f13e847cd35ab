"""The search itself: the most promising proposal first, until one runs to its end or the time is up."""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from drygrad.worker.errors import first_line
from drygrad.worker.explain.generators import ELSEWHERE
from drygrad.worker.search.coincidence import (
    broadcast,
    contradicts,
    differ_in_sizes_only,
    documented,
    has_classes_last,
    has_free_loss,
    has_free_model,
    with_more_classes,
)
from drygrad.worker.search.distinguishing import distinguished, highs
from drygrad.worker.search.lacking import OFFERED
from drygrad.worker.search.moving import ASSUMPTION, makes_its_own, moved, own_failure
from drygrad.worker.search.nodes import Node, Path, text_of
from drygrad.worker.search.repair import repairs, unmoved
from drygrad.worker.search.trial import Failure, Mismatch, Trials, is_too_large
from drygrad.worker.search.wants import wants

_MOST_TRIALS = 2000
_SMALL = (4, 8, 16)
_PATIENCE = 24
"""So many attempts without any advance, and it is time to ask whether the inputs matter at all."""

_OVERWRITTEN = "has been modified by an inplace operation"
_MOST_STRAYS = 3
_MOVES = 3
"""So many attempts to move something there are where devices are mixed."""


@dataclass
class Found:
    """What a search has come to: the proposal that got furthest, and what stopped it, if it did not run to its end."""

    proposal: Node
    failure: Failure | None
    trials: int
    is_over: bool = True
    """False where the time was up before the first attempt came to an end."""
    is_independent: bool = False
    """Whether the failure is the same whatever the sizes of the proposal."""
    is_moved: bool = False
    """Whether it comes of inputs that were moved to the GPU, and ran on the CPU."""

    @property
    def assumption(self) -> str:
        """What an independent failure takes for granted, in words."""
        if self.failure is None or not self.is_independent:
            return ""
        if self.is_moved:
            return ASSUMPTION
        if isinstance(self.failure.error, Mismatch) and self.failure.call is not None:
            told = " and ".join(f"`{name}`" for name in documented(self.proposal, self.failure.call))
            return f"the documented shape of {told} is right"
        loaders = sorted({path[0] for path in unmoved(self.proposal, self.failure)})
        return f"what {' and '.join(f'`{name}`' for name in loaders)} yields is on the CPU" if loaders else ""


class _Waiting(NamedTuple):
    """A proposal to try; ``credit`` is how far the one had come that it was made from, as an error asked.

    What an error asks for may let the code fail earlier, until one more thing is changed with it.
    """

    order: int
    cost: float
    number: int
    proposal: Node
    credit: int


class Search:
    """A search of one target's inputs; ``better`` hears of each advance.

    ``until`` is a time of this process: where others keep the machine busy, the search lasts longer, not shorter.
    """

    def __init__(self, trials: Trials, until: float, better: Callable[[Found], None], *, settles: bool = True) -> None:
        """``settles``: what is found is moved to the GPU, and made to tell sizes apart."""
        self.trials = trials
        self._until = until
        self._settles = settles
        self._better = better
        self._count = itertools.count()
        self._seen: set[str] = set()
        self.best: Found | None = None
        self.made = 0
        self._strays = 0

    def run(self, start: Node) -> Found:
        """Search from a proposal on."""
        waiting = [_Waiting(0, 0.0, next(self._count), start, 0)]
        while waiting and self._has_time():
            if self.best is not None and self._is_stuck(self.best) and (sure := self._sure(self.best)):
                return sure
            _, cost, _, proposal, credit = heapq.heappop(waiting)
            if not self._is_new(proposal):
                continue
            failure = self._try(proposal)
            if failure is None and self.best is not None and self._is_chance(self.best, proposal):
                return replace(self.best, trials=self.made, is_independent=True)
            if failure is None and not self._settles:
                return Found(proposal, None, self.made)
            if failure is None:
                return self.settled(self._bounded(self._distinct(self._smaller(proposal))))
            if (own := self._own(proposal, failure)) is not None:
                return own
            if self.best is None or failure.progress > _progress(self.best) or _is_own(failure):
                self.best = Found(proposal, failure, self.made)
                self._better(self.best)
            if _is_own(failure):
                return self.best
            for change in repairs(proposal, failure):
                progress = max(failure.progress, credit) if change.is_asked else failure.progress
                before = (progress if failure.building is not None else failure.progress) if change.is_asked else 0
                heapq.heappush(
                    waiting, _Waiting(-progress, cost + change.cost, next(self._count), change.proposal, before)
                )
        assert self.best is not None
        return self._sure(self.best) or replace(self.best, trials=self.made)

    def _own(self, proposal: Node, failure: Failure) -> Found | None:
        """Return the failure if the code mixes devices by itself, wherever its inputs are; it is asked a few times."""
        if self._strays >= _MOST_STRAYS or not makes_its_own(failure):
            return None
        self._strays += 1
        found = own_failure(proposal, self.trials)
        return Found(*found, self.made, is_independent=True, is_moved=True) if found is not None else None

    def _sure(self, best: Found) -> Found | None:
        """Return the failure if no other inputs could have kept the code from it; None where some could."""
        return replace(best, trials=self.made, is_independent=True) if self._is_independent(best) else None

    def _is_chance(self, best: Found, proposal: Node) -> bool:
        """Say whether a success comes of two sizes that are equal by chance, and every other one fails."""
        if best.failure is None or best.failure.call is None:
            return False
        alike = has_classes_last(best.failure.call) and differ_in_sizes_only(best.proposal, proposal)
        return alike and self._is_independent(best)

    def settled(self, proposal: Node) -> Found:
        """Return what was found, on the GPU where there is one."""
        there, failure = moved(proposal, self.trials)
        return Found(there, failure, self.made, is_independent=failure is not None, is_moved=failure is not None)

    def _has_time(self) -> bool:
        return self.made < _MOST_TRIALS and (self.best is None or time.process_time() < self._until)

    def _is_stuck(self, best: Found) -> bool:
        """Say whether it is time to ask if the inputs matter; where devices are mixed, only the code can help."""
        assert best.failure is not None
        return self.made == best.trials + (_MOVES if unmoved(best.proposal, best.failure) else _PATIENCE)

    def _is_new(self, proposal: Node) -> bool:
        text = text_of(proposal) + "".join(text_of(node) for _, node in proposal.parts)
        if text in self._seen or is_too_large(proposal):
            return False
        self._seen.add(text)
        return True

    def _try(self, proposal: Node) -> Failure | None:
        begun = time.process_time()
        self.made += 1
        failure = self.trials.attempt(proposal)
        if self.made == 1:  # which makes all objects that later ones have, too
            self._until += min(time.process_time() - begun, self._until - begun)
        return failure

    def _smaller(self, proposal: Node) -> Node:
        """Return the proposal with its images as small as they may be."""
        for _, leaf in [*proposal.leaves()]:
            if leaf.kind != "tensor" or len(leaf.shape) < 4:
                continue
            for size in _SMALL:
                if size >= leaf.shape[-1] or time.process_time() > self._until:
                    break
                images = [p for p, n in proposal.leaves() if n.kind == "tensor" and n.shape[-2:] == leaf.shape[-2:]]
                smaller = proposal
                for other in images:
                    node = smaller.at(other)
                    smaller = smaller.replaced(other, replace(node, shape=(*node.shape[:-2], size, size)))
                if self._try(smaller) is None:
                    return smaller
        return proposal

    def _distinct(self, proposal: Node) -> Node:
        """Return the proposal with a batch of a size that nothing else has, where the code takes it.

        Where two sizes are equal by chance, axes that are mixed up go unnoticed.
        """
        for changed in distinguished(proposal):
            if time.process_time() > self._until:
                break
            if self._try(changed) is None:
                return changed
        return proposal

    def _bounded(self, proposal: Node) -> Node:
        """Return the proposal with integers that are all in range, not only those that were drawn."""
        for path, leaf in [*proposal.leaves()]:
            for high in highs(leaf):
                if time.process_time() > self._until:
                    return proposal
                changed = replace(proposal.at(path), high=high)
                if self._try(proposal.replaced(path, replace(changed, value=high - 1))) is None:
                    proposal = proposal.replaced(path, changed)
                    break
        return proposal

    def _is_independent(self, best: Found) -> bool:
        """Say whether every other size fails at the same place for the same operands, or does not even get there.

        Another of each part does get there: else that part may be the wrong one, and others have to follow it.
        """
        assert best.failure is not None
        if best.failure.call is not None and has_classes_last(best.failure.call):
            return self._gives_classes_last(best)
        mark = _mark(best.proposal, best.failure)
        if mark is None or _has_fixed_part(best.proposal):
            return False
        same, stay = 0, unmoved(best.proposal, best.failure)
        left = {} if _is_of_devices(best) else _invented(best.proposal)
        for other in _varied(best.proposal):
            if isinstance(best.failure.error, Mismatch) and contradicts(best.proposal, other):
                continue
            if any(other.at(path).shape == () for path in stay):  # a scalar goes with any device
                continue
            failure = self.trials.attempt(other)
            if failure is None or failure.progress > best.failure.progress:
                return False
            if _mark(other, failure) == mark:  # perhaps after less: an object that is made once need not be moved again
                same += 1
                left = {path: leaf for path, leaf in left.items() if other.found_at(path) == leaf}
            elif failure.progress == best.failure.progress:
                return False
        return same > 0 and not left

    def _gives_classes_last(self, best: Found) -> bool:
        """Say whether a loss gets its classes in the last axis, by their name, and nothing but sizes could help."""
        assert best.failure is not None
        if has_free_model(best.proposal) or has_free_loss(best.proposal):
            return False
        for other in _varied(best.proposal):
            if not differ_in_sizes_only(best.proposal, other):
                failure = self.trials.attempt(other)
                if failure is None or failure.progress > best.failure.progress:
                    return False
        return any(self._moves_classes(best, other) for other in with_more_classes(best.proposal))

    def _moves_classes(self, best: Found, other: Node) -> bool:
        """Say whether another number of classes changes only the last axis of what the loss gets."""
        failure = self.trials.attempt(other)
        if failure is None or failure.call is None or best.failure is None or best.failure.call is None:
            return False
        before, after = best.failure.call.tensors()[0].shape, failure.call.tensors()[0].shape
        alike = has_classes_last(failure.call) and failure.progress == best.failure.progress
        return alike and before[:-1] == after[:-1] and before[-1] != after[-1]


def _is_own(failure: Failure) -> bool:
    """Say whether the code has failed in a way that no other inputs of the same kinds would help."""
    return failure.building is None and _OVERWRITTEN in str(failure.error)


def _progress(found: Found) -> int:
    return found.failure.progress if found.failure is not None else 0


def _mark(proposal: Node, failure: Failure) -> tuple[object, ...] | None:
    """Return which sizes or devices do not fit; None where that cannot be told, or the inputs could not be made."""
    generator = ELSEWHERE.search(str(failure.error)) if failure.building is None else None
    if generator is not None and not any("Generator" in node.text for _, node in proposal.nodes()):
        return generator.groups()
    if failure.call is None or failure.building is not None:
        return None
    tensors = failure.call.tensors()
    if unmoved(proposal, failure):
        return failure.call.name, *[str(tensor.device) for tensor in tensors]
    if has_free_model(proposal):
        return None  # a model that stands in gives its own sizes
    if isinstance(failure.error, Mismatch):
        return broadcast(failure.call) if documented(proposal, failure.call) else None
    if not failure.call.origins(tensors):  # or they were lost: an array, a number of the shape
        operands = [(str(tensor.device), str(tensor.dtype), *tensor.shape) for tensor in tensors]
        return failure.call.name, first_line(failure.error), failure.call.plain(), *operands
    size = next((want for want in wants(failure) if want.kind == "size"), None)
    return (failure.call.name, size.got, size.want) if size is not None else None


def _is_of_devices(best: Found) -> bool:
    """Say whether what does not fit is where things are, which no number changes."""
    if best.failure is None or ELSEWHERE.search(str(best.failure.error)) is not None:
        return True
    return bool(unmoved(best.proposal, best.failure))


def _invented(proposal: Node) -> dict[Path, Node]:
    """Return the parts that were invented: tensors, and numbers as they are written or searched."""
    return {path: leaf for path, leaf in proposal.leaves() if leaf.kind in ("tensor", "number") or _is_written(leaf)}


def _is_written(leaf: Node) -> bool:
    return leaf.source == "search" and leaf.text.isdecimal()


def _has_fixed_part(proposal: Node) -> bool:
    """Say whether something was invented for which no others are tried: what fills an object, an array, a word."""
    if any(node.kind == "prepared" for _, node in proposal.nodes()):
        return True
    texts = [leaf for _, leaf in proposal.leaves() if leaf.kind == "text"]
    return any(leaf.text.endswith(".numpy()") or leaf.why == OFFERED for leaf in texts)


def _varied(proposal: Node) -> Iterator[Node]:
    """Yield the proposal with one part of another kind, size or value, then with all of a size changed."""
    for path, node in proposal.nodes():
        yield from (proposal.replaced(path, other) for other in node.others)
        if node.kind in ("tuple", "list") and node.parts:
            longer = (*node.parts, (str(len(node.parts)), node.parts[-1][1]))
            yield proposal.replaced(path, replace(node, parts=longer))
    for path, leaf in proposal.leaves():
        if leaf.kind == "number":
            yield proposal.replaced(path, replace(leaf, value=leaf.value * 2))
        if leaf.kind != "tensor":
            continue
        yield from (proposal.replaced(path, replace(leaf, dtype=d)) for d in ("int64", "float32") if d != leaf.dtype)
        yield from (proposal.replaced(path, replace(leaf, shape=s)) for s in (leaf.shape[1:], (2, *leaf.shape)))
        for axis, size in enumerate(leaf.shape):
            shape = (*leaf.shape[:axis], size * 2, *leaf.shape[axis + 1 :])
            yield proposal.replaced(path, replace(leaf, shape=shape))
    yield from _varied_together(proposal)


def _varied_together(proposal: Node) -> Iterator[Node]:
    """Yield the proposal with all that has a size doubled at once: inputs may have to agree in it to get anywhere."""
    tensors = [(path, leaf) for path, leaf in proposal.leaves() if leaf.kind == "tensor"]
    numbers = [(path, leaf) for path, leaf in proposal.leaves() if leaf.kind == "number"]
    for size in dict.fromkeys(size for _, leaf in tensors for size in leaf.shape):
        doubled = proposal
        for path, leaf in tensors:
            shape = tuple(2 * own if own == size else own for own in leaf.shape)
            doubled = doubled.replaced(path, replace(leaf, shape=shape))
        yield doubled
        for path, leaf in numbers:
            doubled = doubled.replaced(path, replace(leaf, value=2 * size)) if leaf.value == size else doubled
        yield doubled


def said(found: Found) -> str:
    """Return the failure of a search in one line."""
    if found.failure is None:
        return "" if found.is_over else "time ran out during the first attempt"
    line = first_line(found.failure.error)
    return f"{type(found.failure.error).__name__}: {line}" if line else type(found.failure.error).__name__
