"""From inputs that a target runs with to others that come by what these leave out: another size, number, option."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, product
from typing import Callable

from drygrad.worker.search.nodes import FLOATS, Node, Path
from drygrad.worker.search.trial import Failure, Trials, is_too_large

_SIZES = (7, 5, 1, 9, 2)
_NUMBERS = (1, 2, 3, 0, 5, 16)
_VALUES = (" * 0", ".abs() + 1", " * 100", " - 3")
_RANKS = 5
_MOST_STUCK = 3

Repair = Callable[[Node], "Node | None"]


def reaching(
    start: Node, trials: Trials, blocks: set[int], wanted: frozenset[int], until: float, repaired: Repair
) -> Node | None:
    """Return inputs near others that come by one of the lines that are wanted; None where none do in time.

    ``blocks`` has lines of what the code has entered in the last attempt. What gets there and fails is ``repaired``.
    """
    stuck: list[tuple[Node, Failure]] = []
    for other in variations(start):
        if time.process_time() > until:
            break
        if is_too_large(other):
            continue
        blocks.clear()
        failure = trials.attempt(other)
        if not blocks & wanted:
            continue
        if failure is None:
            return other
        stuck.append((other, failure))
    for other, _ in stuck[:_MOST_STUCK]:
        found = repaired(other)
        if found is None:
            continue
        blocks.clear()
        if trials.attempt(found) is None and blocks & wanted:
            return found
    return None


def variations(start: Node) -> Iterator[Node]:
    """Yield inputs that differ in one thing each, what is chosen on purpose first."""
    yield from _with_options(start)
    for path, node in start.nodes():
        for other in node.others:
            yield start.replaced(path, replace(other, others=()))
    for path, leaf in [*start.leaves()]:
        if leaf.kind == "number":
            values = (leaf.value + 1, *_NUMBERS)
            yield from (start.replaced(path, replace(leaf, value=v)) for v in dict.fromkeys(values) if v != leaf.value)
        elif leaf.kind == "text" and leaf.text in ("True", "False"):
            yield start.replaced(path, replace(leaf, text=repr(leaf.text == "False")))
    yield from _with_sizes(start)
    yield from _with_values(start)


def _with_options(start: Node) -> Iterator[Node]:
    """Yield the inputs with each option, then with two of one call: one may want the other."""
    places: list[tuple[Path, Node]] = [((), start), *start.nodes()]
    for path, node in places:
        for name, option in node.options:
            yield from (start.replaced(path, node.with_part(name, one)) for one in _choices(option))
    for path, node in places:
        for (name, option), (other, beside) in combinations(node.options, 2):
            for one, two in product(_choices(option), _choices(beside)):
                yield start.replaced(path, node.with_part(name, one).with_part(other, two))


def _choices(option: Node) -> list[Node]:
    return [replace(one, others=()) for one in (option, *option.others)]


def _with_sizes(start: Node) -> Iterator[Node]:
    tensors = [(path, leaf) for path, leaf in start.leaves() if leaf.kind == "tensor"]
    known = dict.fromkeys(size for _, leaf in tensors for size in reversed(leaf.shape))
    for old in known:
        for new in _SIZES:
            if new != old:
                changed = start
                for path, leaf in tensors:
                    shape = tuple(new if size == old else size for size in leaf.shape)
                    changed = changed.replaced(path, replace(leaf, shape=shape))
                yield changed
    for path, leaf in tensors:
        for axis, old in enumerate(leaf.shape):
            for new in _SIZES[:3]:
                if new != old:
                    shape = (*leaf.shape[:axis], new, *leaf.shape[axis + 1 :])
                    yield start.replaced(path, replace(leaf, shape=shape))
        if len(leaf.shape) < _RANKS:
            yield start.replaced(path, replace(leaf, shape=(2, *leaf.shape)))
        yield start.replaced(path, replace(leaf, shape=leaf.shape[1:]))


def _with_values(start: Node) -> Iterator[Node]:
    for path, leaf in [*start.leaves()]:
        if leaf.kind != "tensor" or start.stays(path):
            continue
        for dtype in ("int64", "float32", "float64", "bool"):
            if dtype != leaf.dtype:
                yield start.replaced(path, replace(leaf, dtype=dtype))
        if leaf.dtype in FLOATS:
            for text in _VALUES:
                yield start.replaced(path, Node("changed", text, parts=(("value", leaf),)))
