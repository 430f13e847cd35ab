"""From what was seen of many calls to the shortest rule that says all of it."""

# pyright: basic

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from itertools import combinations
from typing import Any

Observation = tuple[dict[str, str], tuple[Hashable, ...]]
"""The features of a call, and what could be said of it, the best first."""


def decide(observations: Sequence[Observation], *, ranks: bool = False) -> Any:
    """Return what can be said of every call: one label, or ``{"by": features, "cases": [[values, label], ...]}``.

    ``ranks`` lets numbers of dimensions decide. A label of None says nothing: not all calls of that kind were alike.
    """
    single = _common(labels for _, labels in observations)
    if single is not None:
        return single
    names = sorted({name for features, _ in observations for name in features if ranks or name[0] != "#"}, key=_order)
    best: tuple[int, int, tuple[str, ...]] | None = None
    for size in (1, 2):
        for chosen in combinations(names, size):
            groups = _groups(observations, chosen)
            unclear = sum(len(group) for group in groups.values() if _common(group) is None)
            score = (unclear, size, chosen)
            if best is None or score[:2] < best[:2]:
                best = score
        if best is not None and best[0] == 0:
            break
    if best is None:
        return None
    rows = [[list(values), _common(group)] for values, group in sorted(_groups(observations, best[2]).items())]
    return {"by": list(best[2]), "cases": rows} if any(label is not None for _, label in rows) else None


def _order(name: str) -> tuple[bool, str]:
    return name[0] == "#", name


def _groups(
    observations: Sequence[Observation], chosen: tuple[str, ...]
) -> dict[tuple[str, ...], list[tuple[Hashable, ...]]]:
    groups: dict[tuple[str, ...], list[tuple[Hashable, ...]]] = {}
    for features, labels in observations:
        groups.setdefault(tuple(features.get(name, "-") for name in chosen), []).append(labels)
    return groups


def _common(candidates: Iterable[tuple[Hashable, ...]]) -> Hashable | None:
    """Return the best label that fits all."""
    rows = list(candidates)
    return next((label for label in rows[0] if all(label in row for row in rows[1:])), None) if rows else None
