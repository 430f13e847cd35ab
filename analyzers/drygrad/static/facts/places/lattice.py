"""Devices by what decides them: the default one, where a parameter or the module is, none, or unknown.

A value is known by the *alternatives* of where it may be, one for each way that leads there. Nothing is claimed of
another way: an alternative that nothing is known of is ``ANY``.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TypeAlias

MODULE = "self"
"""The root of what moves with its module: parameters and buffers."""
_MOST = 6
"""Alternatives kept of one value; more are unknown."""
_LONGEST_ROOT = 60
_HIGH = 9
"""A number of dimensions that no single reduction takes away."""


@dataclass(frozen=True, slots=True)
class Made:
    """On the default device: made by ``factory``, at ``site`` (the call of a helper that knows no device, else itself).

    Where ``device`` is ``cuda``, the ``factory`` is the call that puts it there.

    ``rank`` is the least number of its dimensions: a CPU tensor without any may meet tensors of every device.
    ``without`` is the parameter that was None where it was made; ``held`` says that an attribute of an object keeps it,
    with ``stored`` the statement; ``owners`` are names that had a tensor of the caller's at the site.
    """

    factory: ast.Call
    site: ast.Call
    rank: int = 1
    without: str | None = None
    stored: ast.stmt | None = None
    kept_by_init: bool = False
    device: str = "cpu"
    owners: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class At:
    """Where a ``root`` is: a parameter (``x``), what it holds (``batch.x``), or the module (``self``).

    ``tensor`` says that the value is a tensor whatever its root is; ``moved`` that the text moved it there; ``rank`` is
    the least number of its dimensions, if a tensor that is given has one: without any, it is an index like a number.
    """

    root: str
    tensor: bool = False
    moved: bool = False
    rank: int = 1


@dataclass(frozen=True, slots=True)
class Nowhere:
    """Bound to no device: a number, a string, None."""


@dataclass(frozen=True, slots=True)
class Anywhere:
    """Unknown; ``moved`` says that the text chose a device for it."""

    moved: bool = False


Alternative: TypeAlias = Made | At | Nowhere | Anywhere
FREE, ANY, CHOSEN = Nowhere(), Anywhere(), Anywhere(moved=True)


@dataclass(frozen=True, slots=True)
class Parts:
    """A container: its items where they are known one by one, else what holds of each."""

    items: tuple[Place, ...] | None
    element: Place = frozenset({ANY})


Place: TypeAlias = "frozenset[Alternative] | Parts"
NOWHERE: frozenset[Alternative] = frozenset({FREE})
UNKNOWN: frozenset[Alternative] = frozenset({ANY})
MOVED: frozenset[Alternative] = frozenset({CHOSEN})


def join(first: Place, second: Place) -> Place:
    """Return where a value may be that comes one way or the other."""
    if first == second:
        return first
    if isinstance(first, Parts) and isinstance(second, Parts):
        if first.items is not None and second.items is not None and len(first.items) == len(second.items):
            return Parts(tuple(join(a, b) for a, b in zip(first.items, second.items, strict=True)))
        return Parts(None, join_all([element_of(first), element_of(second)]))
    if isinstance(first, Parts) or isinstance(second, Parts):
        return UNKNOWN
    return _bounded(first | second)


def join_all(places: Iterable[Place]) -> Place:
    """Join any number of places; nothing is nowhere."""
    result: Place | None = None
    for place in places:
        result = place if result is None else join(result, place)
    return NOWHERE if result is None else result


def _bounded(alternatives: frozenset[Alternative]) -> frozenset[Alternative]:
    """Where one way moves a value and another leaves what was made, the text minds devices: then nothing is known."""
    if len(alternatives) == 1:
        return alternatives
    moves = any(isinstance(a, (At, Anywhere)) and a.moved for a in alternatives)
    made = {a.device for a in alternatives if isinstance(a, Made)}
    if len(alternatives) > _MOST or (moves and made) or len(made) > 1:
        return UNKNOWN
    return frozenset(a for a in alternatives if not any(_is_lower(b, a) for b in alternatives))


def _is_lower(one: Alternative, other: Alternative) -> bool:
    """Say whether of two alternatives that differ in rank alone the one has the lower."""
    if isinstance(one, Made) and isinstance(other, Made) and one.rank < other.rank:
        return replace(one, rank=other.rank) == other
    if isinstance(one, At) and isinstance(other, At) and one.rank < other.rank:
        return replace(one, rank=other.rank) == other
    return False


def element_of(place: Place) -> Place:
    """Return where each item of a container is; of a tensor, where its parts are."""
    if not isinstance(place, Parts):
        return place
    return place.element if place.items is None else join_all(place.items)


def flat(place: Place) -> frozenset[Alternative]:
    """Return all alternatives of a value and of what it holds."""
    if not isinstance(place, Parts):
        return place
    inner = element_of(place)
    return flat(inner)


def each(place: Place, change: Callable[[Alternative], Iterable[Alternative]]) -> Place:
    """Return a place with every alternative changed into others."""
    if isinstance(place, Parts):
        items = None if place.items is None else tuple(each(item, change) for item in place.items)
        return Parts(items, each(place.element, change))
    return _bounded(frozenset(new for alternative in place for new in change(alternative)))


def made_in(place: Place) -> Iterator[Made]:
    """Yield the alternatives on a device that the text names that have dimensions."""
    return (a for a in flat(place) if isinstance(a, Made) and a.rank > 0)


def meets(left: Place, right: Place, shows: Callable[[At], bool]) -> bool:
    """Say whether the one is on the default device where the other surely is where its giver wants it to be.

    What differs by the way must not differ together: where the one is made on all ways, some ways of the other will do;
    else all of them must be given.
    """
    given = [a for a in flat(right) if isinstance(a, At) and shows(a)]
    others = [a for a in flat(right) if a not in given]
    made = any(made_in(left))
    always = made and all(isinstance(a, Made) and a.rank > 0 for a in flat(left))
    known = not others or (always and CHOSEN not in others)
    return bool(given) and made and known


def result(places: Iterable[Place]) -> frozenset[Alternative]:
    """Return where an operation leaves what it computes from these.

    An operation on a tensor made here and something that may be none ends only where that is on the CPU as well, or is
    a number: its result is there, too.
    """
    each_place = [flat(place) for place in places]
    operands = [a for alternatives in each_place for a in alternatives]
    if sum(not alternatives <= NOWHERE for alternatives in each_place) == 1:
        return _bounded(frozenset(_computed(a) if isinstance(a, At) else a for a in operands if a != FREE))
    ranks = [a.rank for a in operands if isinstance(a, (At, Made))]
    rank = max(ranks, default=0)
    given = {replace(_computed(a), rank=rank) for a in operands if isinstance(a, At)}
    tensors = {a for a in given if a.tensor}
    if tensors:
        return _bounded(frozenset(tensors))  # what else is given may be a number
    made = {a for a in operands if isinstance(a, Made)}
    if made:
        return _bounded(frozenset(replace(a, rank=max(m.rank for m in made)) for a in made))
    if given:
        return frozenset(given)
    if any(isinstance(a, (Anywhere, At)) for a in operands):
        return MOVED if CHOSEN in operands else UNKNOWN
    return NOWHERE


def _computed(place: At) -> At:
    """Return where a result is that was computed of a value there."""
    return replace(place, moved=place.moved and not place.tensor)


def with_rank(place: Place, change: Callable[[int], int]) -> Place:
    """Return a place whose tensors have another least number of dimensions."""
    return each(place, lambda a: (replace(a, rank=max(0, change(a.rank))) if isinstance(a, (Made, At)) else a,))


def reduced(place: Place, change: Callable[[int], int]) -> Place:
    """Return a place of what an operation gave: of something given, to reduce one dimension leaves another."""

    def changed(a: Alternative) -> Iterable[Alternative]:
        if isinstance(a, At) and a.rank > 0:
            return (replace(a, rank=max(change(a.rank), int(change(_HIGH) > 1))),)
        return (replace(a, rank=max(0, change(a.rank))),) if isinstance(a, (Made, At)) else (a,)

    return each(place, changed)


def without_none(place: Place) -> Place:
    """Return where a value is that is not None."""
    rest = frozenset[Alternative]() if isinstance(place, Parts) else place - NOWHERE
    return rest or place


def as_tensor(place: Place) -> Place:
    """Return a place of what an operation on tensors has given."""
    return each(place, lambda a: (replace(a, tensor=True) if isinstance(a, At) else a,))


def below(place: Place, part: str) -> Place:
    """Return where an attribute or item of something given is: with the giver of that, whatever it is."""
    if isinstance(place, Parts) or not all(isinstance(a, At) and a.root != MODULE for a in place):
        return UNKNOWN
    roots = {f"{a.root}{part}" for a in place if isinstance(a, At)}
    if any(len(root) > _LONGEST_ROOT for root in roots):
        return UNKNOWN
    return frozenset(At(root) for root in roots)
