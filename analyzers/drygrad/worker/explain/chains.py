"""Values that are computed of what they were one step before, with their graph: it grows with every step."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import weakref
from collections.abc import Iterable
from types import CodeType
from typing import Any, NamedTuple

import torch

_MOST = 5_000
_ENOUGH = 2


class _Mark:
    """What a node of the graph holds on to, so that a reference to it tells whether the node is alive."""

    __slots__ = ("__weakref__",)


class _Link(NamedTuple):
    """The number of the node that a value had after a step, and how often it was computed of the one before."""

    number: int
    links: int
    mark: weakref.ref[_Mark]


class Chains:
    """Follows the values that the user's names have after each step of one optimizer."""

    def __init__(self) -> None:
        self._known: dict[tuple[CodeType, str], _Link] = {}

    def follow(self, values: Iterable[tuple[CodeType, str, torch.Tensor]]) -> None:
        """Compare what names have now with what they had after the last step."""
        now: dict[tuple[CodeType, str], _Link] = {}
        for code, name, tensor in values:
            node: Any = tensor.grad_fn
            if node is None:
                continue
            number, before = node._sequence_nr(), self._known.get((code, name))
            links = 0
            if before is not None and number == before.number:
                links = before.links
            elif before is not None and before.mark() is not None and _leads_to(node, before.number):
                links = before.links + 1
            now[code, name] = _Link(number, links, _marked(node))
        self._known = now

    def is_chain(self, code: CodeType, name: str) -> bool:
        """Say whether a name's value was computed of the one before, and that of its own."""
        link = self._known.get((code, name))
        return link is not None and link.links >= (1 if "." in name or "[" in name else _ENOUGH)


def _marked(node: Any) -> weakref.ref[_Mark]:
    """Return a reference that lives as long as a node does: to objects of Python a node is made anew each time."""
    mark: _Mark = node.metadata.setdefault(_Mark, _Mark())
    return weakref.ref(mark)


def _leads_to(node: Any, number: int) -> bool:
    """Say whether backward goes from a node to the one of that number."""
    waiting, seen = [node], {node}
    while waiting and len(seen) < _MOST:
        for following, _ in waiting.pop().next_functions:
            if following is None or following in seen:
                continue
            its = following._sequence_nr()
            if its == number:
                return True
            if its > number:  # what is older cannot lead to what is younger
                seen.add(following)
                waiting.append(following)
    return False
