"""Values at the edge of what is legal: a sample of zeros, two equal ones, an empty mask, great numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Callable

import torch

from drygrad.worker.experiments.held import Held, Shown
from drygrad.worker.experiments.singular import Compared
from drygrad.worker.reading import extremes, quietly

_CLASSES = 8
_FAR = (20.0, 120.0)
"""Beyond the first the square of a float32 has no exponential any more, beyond the second a number itself."""

_MOST_GROWN = 1e5
_GROWN = (34.0, 240.0)
"""The same, of the most that a layer gives: the first is not as far as 1 minus a sigmoid is 0 in float64, too."""


@dataclass(frozen=True)
class Edge:
    """Inputs of which some are replaced, and how a user is told of them."""

    words: str
    values: dict[int, torch.Tensor] = field(default_factory=lambda: {})
    """What to give in place of a tensor, by its identity."""
    ordinary: bool = False
    """Whether data have it every so often: one sample, a mask, a class; not all of them at once."""
    first_only: bool = False
    """Whether the first of the samples is all that differs."""
    saturated: bool = False
    """Whether an activation comes there by rounding, or a weight by itself: then no infinite result is meant."""
    far: bool = False
    """Whether it is a matter of magnitude: then wider numbers tell what should come of it."""
    grown: tuple[str, float] | None = None
    """The parameter that is multiplied, and by what."""


Known = list["tuple[Held, Shown]"]


def at_points(known: Known) -> Iterator[Edge]:
    """Yield floats with zeros, equal and constant samples, the more ordinary first."""
    free = [held for held, shown in known if shown.zero]
    for held, shown in known:
        for edge in _zeros(held) if shown.zero else ():
            yield replace(edge, saturated=shown.saturates)
    for held, shown in known:
        if shown.sums is not None:
            edge = _changed(held, f"`{held.name}` is certain of one class", _certain_along(shown.sums))
            yield replace(edge, saturated=shown.saturates)
    for held, shown in known:
        if shown.unit is not None:
            yield from _axes(held, shown.unit)
        if shown.rotates:
            yield from _turns(held)
    for held in free:
        yield from _equals(held)
    alike = [held for held, shown in known if shown.zero or shown.unit is not None]
    for position, held in enumerate(alike):
        for other in alike[:position]:
            if other.tensor.shape == held.tensor.shape and other.tensor.dtype == held.tensor.dtype:
                yield from _meetings(held, other)
    for held, shown in known:
        if shown.zero and shown.within == (0.0, 1.0):
            edge = _changed(held, f"`{held.name}` is 1 everywhere", lambda t: t.fill_(1))
            yield replace(edge, saturated=shown.saturates)


def _zeros(held: Held) -> Iterator[Edge]:
    tensor, name = held.tensor, held.name
    if tensor.dim() > 1 and tensor.shape[0] > 1:
        yield _changed(held, f"`{name}[0]` is 0 everywhere", lambda t: t[0].zero_(), ordinary=True, first_only=True)
    if tensor.dim() > 2 and tensor.shape[1] > 1:
        yield _changed(
            held, f"`{name}[0, 0]` is 0 everywhere", lambda t: t[0, 0].zero_(), ordinary=True, first_only=True
        )
    if tensor.dim() == 1 and tensor.shape[0] > 1:
        yield _changed(held, f"`{name}[0]` is 0", lambda t: t[0].zero_(), ordinary=True, first_only=True)
    yield _changed(held, f"`{name}` is 0 everywhere", lambda t: t.zero_())


def _equals(held: Held) -> Iterator[Edge]:
    tensor, name = held.tensor, held.name
    if tensor.dim() > 2 and tensor.shape[1] > 1:
        yield _changed(
            held,
            f"`{name}[0, 1]` equals `{name}[0, 0]`",
            lambda t: t[0, 1].copy_(t[0, 0]),
            ordinary=True,
            first_only=True,
        )
    if tensor.dim() > 1 and tensor.shape[0] > 1:
        yield _changed(held, f"`{name}[1]` equals `{name}[0]`", lambda t: t[1].copy_(t[0]), ordinary=True)
        yield _changed(
            held,
            f"`{name}[0]` is constant",
            lambda t: t[0].fill_(float(t[0].mean())),
            ordinary=True,
            first_only=True,
        )
    if tensor.numel() > 1:
        words = f"all samples of `{name}` are equal" if tensor.dim() > 1 else f"`{name}` is constant"
        yield _changed(held, words, lambda t: t.copy_(t[:1].expand_as(t).clone()))


def _axes(held: Held, dim: int) -> Iterator[Edge]:
    """Yield vectors of length one along an axis, and two that are equal."""
    which = f"`{held.name}[0]`" if dim % held.tensor.dim() else f"`{held.name}`"
    for place, words in ((0, "first"), (-1, "last")):
        change = _certain_along(dim, place)
        yield _changed(held, f"{which} points along its {words} axis", change, first_only=True)
    if dim % held.tensor.dim() and held.tensor.shape[0] > 1:
        words = f"`{held.name}[1]` equals `{held.name}[0]`"
        yield _changed(held, words, lambda t: t[1].copy_(t[0]), ordinary=True)


def _turns(held: Held) -> Iterator[Edge]:
    """Yield no rotation at all, and one of half a turn."""
    size, several = held.tensor.shape[-1], held.tensor.dim() > 2
    which = f"`{held.name}[0]`" if several else f"`{held.name}`"
    with quietly():
        none = torch.eye(size, dtype=held.tensor.dtype, device=held.tensor.device)
        half = -none
        half[0, 0] = 1 if size % 2 else -1
    for turn, words in ((none, "the identity"), (half, "half a turn")):
        yield _changed(held, f"{which} is {words}", _filled_with(turn, several), ordinary=True, first_only=several)


def _filled_with(value: torch.Tensor, several: bool) -> Callable[[torch.Tensor], object]:
    return lambda t: (t[0] if several else t).copy_(value.expand_as(t[0] if several else t))


def _meetings(held: Held, other: Held) -> Iterator[Edge]:
    if held.tensor.dim() > 1 and held.tensor.shape[0] > 1:
        words = f"`{held.name}[0]` equals `{other.name}[0]`"
        first = other.tensor.detach()[0]
        yield _changed(held, words, lambda t: t[0].copy_(first), ordinary=True, first_only=True)
    yield Edge(f"`{held.name}` equals `{other.name}`", {id(held.tensor): _copy(other.tensor)})


def of_selections(known: Known, ignored: set[int], compared: Sequence[Compared]) -> Iterator[Edge]:
    """Yield masks that select nothing or all, classes that occur once or alone, and single samples."""
    for held, shown in known:
        if shown.mask:
            yield from _masks(held)
    for held, shown in known:
        if shown.ids:
            yield from _masked(held, compared)
    for held, shown in known:
        if shown.ids:
            yield from _classes(held, ignored)
    yield from _alone(known)


def _masks(held: Held) -> Iterator[Edge]:
    """Yield them by rows, too: whether any is masked throughout, an attention's caller knows better than we."""
    tensor, name = held.tensor, held.name
    no, yes = ("False", "True") if tensor.dtype is torch.bool else ("0", "1")
    if tensor.dim() == 2 and tensor.shape[0] == tensor.shape[1] > 1:
        edge = _changed(held, f"row and column 0 of `{name}` are {no}", _isolated, first_only=True)
        yield replace(edge, ordinary=tensor.is_floating_point())  # neighbours, not what an attention may see
    if tensor.dim() > 1 and tensor.shape[0] > 1:
        yield _changed(held, f"all of `{name}[0]` is {no}", lambda t: t[0].fill_(0), first_only=True)
        yield _changed(held, f"all of `{name}[0]` is {yes}", lambda t: t[0].fill_(1), first_only=True)
    yield _changed(held, f"all of `{name}` is {no}", lambda t: t.fill_(0), ordinary=True)
    yield _changed(held, f"all of `{name}` is {yes}", lambda t: t.fill_(1), ordinary=True)
    yield _changed(held, f"only one element of `{name}` is {yes}", _single, ordinary=True)


def _masked(held: Held, compared: Sequence[Compared]) -> Iterator[Edge]:
    """Yield a sample of nothing but padding, and a length of 0, where the target makes its mask of them."""
    tensor, name = held.tensor, held.name
    if not tensor.dim() or tensor.shape[0] < 2:
        return
    with quietly():
        flat = tensor.flatten()
        numbers = {number for values, number in compared if values.dtype is flat.dtype and torch.equal(values, flat)}
    for number in sorted(number for number in numbers if number is not None):
        if tensor.dim() > 1:
            words = f"all of `{name}[0]` is {number}, which it is compared with"
            yield _changed(held, words, _first_filled(number), first_only=True)
    if None in numbers and tensor.dim() == 1:
        yield _changed(held, f"`{name}[0]` is 0", _first_filled(0), first_only=True)


def _first_filled(value: int) -> Callable[[torch.Tensor], object]:
    return lambda t: t[0].fill_(value)


def _single(mask: torch.Tensor) -> None:
    mask.zero_().view(-1)[0].fill_(1)


def _isolated(mask: torch.Tensor) -> None:
    mask[0].fill_(0)
    mask[:, 0].fill_(0)


def _classes(held: Held, ignored: set[int]) -> Iterator[Edge]:
    tensor, name = held.tensor, held.name
    if not tensor.dim() or tensor.numel() < 2:
        return
    with quietly():
        flat: Any = tensor.flatten()
        values: list[int] = sorted(set(flat.tolist()))[:_CLASSES]
        counts = {value: int((tensor == value).sum()) for value in values}
    common = max(counts, key=lambda value: counts[value])
    recurring = counts[common] > 1  # else they are ranks or positions, which have no reason to be alike
    for passed_over in ignored & (counts.keys() | {value for value in ignored if value >= 0}):
        yield _changed(
            held, f"all of `{name}` is {passed_over}, which the loss ignores", _filled(passed_over), ordinary=True
        )
    if len(counts) > 1:
        for value in dict.fromkeys((common, min(counts))):
            yield _changed(held, f"all of `{name}` is {value}", _filled(value), ordinary=recurring)
        rare = next(value for value in reversed(list(counts)) if value != common)
        if counts[rare] > 1:
            yield _changed(held, f"{rare} occurs once in `{name}`", lambda t: _once(t, rare, common), ordinary=True)


def _filled(value: int) -> Callable[[torch.Tensor], object]:
    return lambda t: t.fill_(value)


def _once(ids: torch.Tensor, rare: int, common: int) -> None:
    flat = ids.view(-1)
    flat[(flat == rare).nonzero()[1:, 0]] = common


def _alone(known: Known) -> Iterator[Edge]:
    """Yield one sample of each, where all have as many samples as one another."""
    batched = [held for held, _ in known if held.tensor.dim() and held.tensor.shape[0] > 1]
    if len({held.tensor.shape[0] for held in batched}) == 1:
        values = {id(held.tensor): _copy(held.tensor[:1]) for held in batched}
        names = " and ".join(f"`{held.name}`" for held in batched)
        yield Edge(f"{names} have one element each" if batched[1:] else f"{names} has one element", values)


def far_out(known: Known) -> Iterator[Edge]:
    """Yield floats that reach far out, of those that nothing keeps within a range."""
    for held, shown in known:
        both = extremes(held.tensor) if shown.far else None
        # Where there are both signs, both ends are to come that far.
        most = 0.0 if both is None else both[1] if both[0] >= 0 else min(abs(both[0]), abs(both[1]))
        for reach in _FAR:
            if 0 < most < reach:
                factor = reach / most
                with quietly():
                    scaled = held.tensor.detach() * factor
                yield Edge(f"`{held.name}` reaches {reach:g}", {id(held.tensor): scaled}, far=True)


def grown(weights: list[str], reached: float) -> Iterator[Edge]:
    """Yield weights that have grown until what they give is far out, where it reached this."""
    for name in weights:
        for reach in _GROWN:
            factor = reach / max(reached, 1e-3)
            if 1 < factor < _MOST_GROWN:
                words = f"the weights `{name}` grow {factor:.0f}-fold"
                yield Edge(words, far=True, grown=(name, factor))
                yield Edge(f"{words} and change sign", far=True, grown=(name, -factor))


def negative(weights: Iterable[tuple[str, torch.Tensor]]) -> Iterator[Edge]:
    """Yield weights that are all positive, with the other sign: nothing keeps an optimizer from that."""
    for name, weight in weights:
        both = extremes(weight)
        if both is not None and both[0] > 0:
            yield Edge(f"the weights `{name}` become negative", saturated=True, grown=(name, -1.0))


def _certain_along(dim: int, place: int = 0) -> Callable[[torch.Tensor], object]:
    """Return what gives everything to one class, in the first sample where there are several."""

    def change(tensor: torch.Tensor) -> None:
        one = tensor[0] if dim % tensor.dim() else tensor
        one.zero_()
        one.select(dim, place).fill_(1)

    return change


def _changed(
    held: Held,
    words: str,
    change: Callable[[torch.Tensor], object],
    *,
    ordinary: bool = False,
    first_only: bool = False,
) -> Edge:
    new = _copy(held.tensor)
    with quietly():
        change(new)
    return Edge(words, {id(held.tensor): new}, ordinary, first_only)


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    with quietly():
        return tensor.detach().clone(memory_format=torch.contiguous_format)
