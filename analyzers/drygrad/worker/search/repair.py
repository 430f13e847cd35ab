"""What else could be tried after an attempt has failed: the proposal changed as the error asks, then at random."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

from drygrad.worker.search.alike import with_alike
from drygrad.worker.search.coincidence import contradicts
from drygrad.worker.search.kinds import as_array, as_flag, as_instance, as_several, without_argument
from drygrad.worker.search.lacking import with_argument, with_attribute, with_entry
from drygrad.worker.search.nodes import DEFINITE, FLOATS, Node, Path
from drygrad.worker.search.states import with_behaviour, with_state
from drygrad.worker.search.trial import Failure, Mismatch
from drygrad.worker.search.want import Want
from drygrad.worker.search.wants import wants

_SIZES = (8, 12, 14, 16, 24, 28, 32, 48, 56, 64, 84, 96, 112, 128, 192, 224, 227, 256, 299)
_USUAL: dict[int, tuple[int, ...]] = {
    0: (),
    1: (2,),
    2: (2, 64),
    3: (2, 8, 64),
    4: (2, 3, 32, 32),
    5: (2, 3, 8, 16, 16),
    6: (2, 4, 3, 4, 8, 8),
}
_MOST_CHANGES = 60
_ALONE = 0.5
"""How much more far-fetched it is that only one of two inputs changes that are alike."""


class Change(NamedTuple):
    """A proposal to try, how far-fetched it is, and whether the error asks for it."""

    proposal: Node
    cost: float
    is_asked: bool = False


def repairs(proposal: Node, failure: Failure) -> list[Change]:
    """Return what to try next, the likeliest first."""
    if unmoved(proposal, failure):  # no other input would keep the code from mixing devices
        return [
            Change(other, 1)
            for other in _placed(proposal, Want("device", text="cuda", why="the other operands are there"))
        ]
    found: list[Change] = []
    asks = [*wants(failure)]
    if failure.call is not None and not failure.call.origins(failure.call.tensors()):  # lost, as numpy stacked them
        asks = [want if want.paths else replace(want, paths=None) for want in asks]
    is_mixed = _mixes_devices(failure)  # whatever its sizes are, first of all it must be elsewhere
    for number, want in enumerate(asks):
        changed = _CHANGES[want.kind](proposal, want)
        asked, begun = want.kind != "other", 1 + (is_mixed and want.kind != "device")
        found += [Change(other, begun + 0.2 * number + 0.1 * index, asked) for index, other in enumerate(changed)]
    found = [
        change._replace(proposal=other, cost=change.cost + _ALONE * alone)
        for change in found
        for alone, other in enumerate(with_alike(proposal, change.proposal))
    ]
    found += [Change(other, 1.5, is_asked=True) for other in _prepared(proposal)]
    touched = failure.call.origins(failure.call.tensors()) if failure.call is not None else frozenset[Path]()
    found += [Change(other, 3 + 0.1 * index) for index, other in enumerate(_guesses(proposal, touched or None))]
    if isinstance(failure.error, Mismatch):  # it ran: what is written of the inputs is not in doubt
        found = [change for change in found if not contradicts(proposal, change.proposal)]
    return found[:_MOST_CHANGES]


def unmoved(proposal: Node, failure: Failure) -> frozenset[Path]:
    """Return the parts that a loader yields, and that met tensors on the GPU as they were; none if others did, too."""
    call = failure.call
    if call is None or {tensor.device.type for tensor in call.tensors()} != {"cpu", "cuda"}:
        return frozenset()
    origins = [call.origins(tensor) for tensor in call.tensors() if tensor.device.type == "cpu"]
    paths = frozenset[Path]().union(*origins)
    loaded = all(origins) and all(proposal.is_loaded(path) for path in paths)
    return paths if loaded else frozenset()


def _mixes_devices(failure: Failure) -> bool:
    devices = {tensor.device.type for tensor in failure.call.tensors()} if failure.call is not None else set[str]()
    return len(devices) > 1


# -- sizes -------------------------------------------------------------------------------------------------------


def _sized(proposal: Node, want: Want) -> Iterator[Node]:
    """Change what has the size that was met; else what the size could be a product of."""
    new = -(-want.got // want.want) * want.want if want.multiple and want.want else want.want
    if new <= 0 or new == want.got or want.got <= 0:
        return
    places = [*_places(proposal, want.got, want.paths)]
    if len(places) > 1:
        yield _with_sizes(proposal, places, new, want.why)
    for place in places:
        yield _with_sizes(proposal, [place], new, want.why)
    if not places and want.paths is not None:
        yield from _sized(proposal, replace(want, paths=None))
        return
    yield from _scaled(proposal, want, new)
    if not places:
        yield from _related(proposal, want, new)


def _related(proposal: Node, want: Want, new: int) -> Iterator[Node]:
    """Change the sizes that one could be a part of: of a chunk, or of what a slice leaves."""
    for path, leaf in _tensors(proposal, want.paths):
        for axis in reversed(range(len(leaf.shape))):
            size = leaf.shape[axis]
            factor, rest = divmod(size, want.got)
            found = [new * factor] if factor > 1 and not rest else []
            for other in (*found, size + new - want.got):
                if other > 0:
                    together = [*_places(proposal, size, want.paths)]
                    yield _with_sizes(proposal, together, other, want.why)
                    if len(together) > 1:
                        yield _with_sizes(proposal, [(path, axis)], other, want.why)


def _places(proposal: Node, size: int, paths: frozenset[Path] | None) -> Iterator[tuple[Path, int]]:
    """Yield the axes and numbers of that value; an axis is counted from 0, a number has -1."""
    for path, leaf in proposal.leaves():
        if leaf.kind == "tensor" and (paths is None or path in paths):
            yield from ((path, axis) for axis, value in enumerate(leaf.shape) if value == size)
        elif leaf.kind == "number" and leaf.value == size:
            yield path, -1


def _with_sizes(proposal: Node, places: list[tuple[Path, int]], size: int, why: str) -> Node:
    for path, axis in places:
        leaf = proposal.at(path)
        if axis < 0:
            changed = replace(leaf, value=size, why=why)
        else:
            changed = replace(leaf, shape=(*leaf.shape[:axis], size, *leaf.shape[axis + 1 :]), why=why)
        proposal = proposal.replaced(path, changed)
    return proposal


def _scaled(proposal: Node, want: Want, new: int) -> Iterator[Node]:
    """Change the sizes that a flattened one is made of."""
    for path, leaf in proposal.leaves():
        if leaf.kind != "tensor" or (want.paths is not None and path not in want.paths):
            continue
        if len(leaf.shape) >= 4 and leaf.shape[-1] % want.got == 0:
            side = leaf.shape[-1] // want.got * new
            yield proposal.replaced(path, replace(leaf, shape=(*leaf.shape[:-2], side, side), why=want.why))
        if len(leaf.shape) >= 4 or (len(leaf.shape) == 3 and leaf.shape[1] == leaf.shape[2]):
            yield from _square(proposal, path, leaf, (new / want.got) ** 0.5, want.why)
        for axis in range(1, len(leaf.shape)):
            factor, rest = divmod(want.got, leaf.shape[axis] or 1)
            if not rest and factor and new % factor == 0 and factor > 1:
                yield _with_sizes(proposal, [(path, axis)], new // factor, want.why)
        if len(leaf.shape) == 3:
            near = max(1, round(leaf.shape[2] * new / want.got))
            for size in dict.fromkeys((near, near + 1, near + 2, near - 1, *_SIZES)):
                if size > 0:
                    yield _with_sizes(proposal, [(path, 2)], size, want.why)


def _square(proposal: Node, path: Path, leaf: Node, ratio: float, why: str) -> Iterator[Node]:
    near, side = leaf.shape[-1] * ratio, leaf.shape[-1]
    sizes = sorted({*_SIZES, *(round(near) + d for d in range(-2, 5))}, key=lambda size: abs(size - near))
    between = [size for size in reversed(_SIZES) if side < size < near - 2]  # layers without padding lose some
    for size in dict.fromkeys((*sizes[:1], *between[:5], *sizes[:14])):
        if size > 0:
            yield proposal.replaced(path, replace(leaf, shape=(*leaf.shape[:-2], size, size), why=why))


def _larger(proposal: Node, want: Want) -> Iterator[Node]:
    for path, leaf in _tensors(proposal, want.paths):
        kept = 2 if len(leaf.shape) > 2 else 1
        for first in (kept, *([1] if len(leaf.shape) == 3 else [])):
            if len(leaf.shape) > 1:
                shape = (*leaf.shape[:first], *(size * 2 for size in leaf.shape[first:]))
                yield proposal.replaced(path, replace(leaf, shape=shape, why=want.why))


# -- other changes -----------------------------------------------------------------------------------------------


def _ranked(proposal: Node, want: Want) -> Iterator[Node]:
    for path, leaf in _tensors(proposal, want.paths):
        rank = len(leaf.shape)
        between = want.want - want.got if want.got else 0  # dimensions may have been added on the way
        for new in dict.fromkeys((rank + between, want.want)):
            if new != rank and new in _USUAL:
                shapes = [_reshaped(leaf.shape, new), *([leaf.shape[rank - new :]] if new < rank else [])]
                if new == 3 and want.want == 4:  # one image, of which others are put together
                    shapes.insert(0, _USUAL[4][1:])
                if want.shape and new >= rank and 3 <= want.want <= new + 1:
                    axis = new - want.want + 1  # that of the channels
                    shapes.insert(0, (*shapes[0][:axis], *want.shape, *shapes[0][axis + 1 :]))
                for shape in dict.fromkeys(shapes):
                    yield proposal.replaced(path, replace(leaf, shape=shape, why=want.why))


def _reshaped(shape: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """Return a usual shape of another rank that keeps the first size, and the last where it is that of features."""
    usual = _USUAL[rank]
    if not shape or not usual:
        return usual
    last = (shape[-1],) if 1 < rank < 4 and 1 < len(shape) < 4 else usual[-1:]
    return (shape[0], *usual[1:-1], *last) if rank > 1 else shape[:1]


def _typed(proposal: Node, want: Want) -> Iterator[Node]:
    for path, leaf in _tensors(proposal, want.paths):
        if leaf.dtype != want.dtype:
            high = want.want or leaf.high
            yield proposal.replaced(path, replace(leaf, dtype=want.dtype, high=high, why=want.why))


def _ranged(proposal: Node, want: Want) -> Iterator[Node]:
    for path, leaf in _tensors(proposal, want.paths):
        if leaf.dtype not in FLOATS and leaf.dtype != "bool" and leaf.high != want.want:
            yield proposal.replaced(path, replace(leaf, high=want.want, value=0, why=want.why))


def _shaped(proposal: Node, want: Want) -> Iterator[Node]:
    for path, leaf in _tensors(proposal, want.paths):
        if want.old is not None and leaf.shape != want.old:
            continue
        repeated, rest = divmod(want.got, math.prod(leaf.shape))
        if repeated > 1 and not rest and math.prod(want.shape) % repeated == 0:  # one of several that were put together
            shape = (math.prod(want.shape) // repeated,)
            yield proposal.replaced(path, replace(leaf, shape=shape, dtype=want.dtype, high=want.want, why=want.why))
        value = 1 if want.text == "unit" else leaf.value
        changed = replace(leaf, shape=want.shape, dtype=want.dtype, high=want.want, value=value, why=want.why)
        if changed != leaf:
            yield proposal.replaced(path, changed)


def _unit(proposal: Node, want: Want) -> Iterator[Node]:
    for path, leaf in _tensors(proposal, want.paths):
        yield proposal.replaced(path, replace(leaf, dtype="float32", value=1, why=want.why))


def _definite(proposal: Node, want: Want) -> Iterator[Node]:
    for path, leaf in _tensors(proposal, want.paths):
        if len(leaf.shape) > 1 and leaf.value != DEFINITE:
            shape = (*leaf.shape[:-1], leaf.shape[-2])
            yield proposal.replaced(path, replace(leaf, shape=shape, dtype="float32", value=DEFINITE, why=want.why))


def _chosen(proposal: Node, want: Want) -> Iterator[Node]:
    """Give a text in quotes another value than the one that is complained of."""
    for path, leaf in proposal.leaves():
        if leaf.kind == "text" and leaf.text in (repr(want.text), f'"{want.text}"'):
            texts = [replace(leaf, text=repr(choice), why=want.why) for choice in want.choices]
            for chosen in texts:
                rest = tuple(other for other in texts if other is not chosen)
                yield proposal.replaced(path, replace(chosen, others=rest))


def _placed(proposal: Node, want: Want) -> Iterator[Node]:
    """Move the modules, the tensors, or both; what a loader yields stays on the CPU, as that of a DataLoader does."""
    modules = [p for p, n in proposal.nodes() if n.is_module]
    tensors = [p for p, n in proposal.leaves() if n.kind == "tensor" and not proposal.stays(p)]
    for chosen in (modules + tensors, modules, tensors):
        moved = proposal
        for path in chosen:
            moved = moved.replaced(path, replace(moved.at(path), device=want.text))
        if chosen:
            yield moved


def _others(proposal: Node, want: Want) -> Iterator[Node]:
    for path, node in proposal.nodes():
        if want.paths is not None and path not in want.paths:
            continue
        for other in node.others:
            rest = tuple(o for o in node.others if o is not other)
            yield proposal.replaced(path, replace(other, others=rest))


def _swapped(proposal: Node, want: Want) -> Iterator[Node]:
    """Let another module stand in where one does that does not take what it is given."""
    for path in want.paths or ():
        node = proposal.at(path)
        for other in node.others if node.kind == "text" and node.is_module else ():
            yield proposal.replaced(path, replace(other, others=tuple(o for o in node.others if o is not other)))


def _named(proposal: Node, want: Want) -> Iterator[Node]:
    """Give another value to what an error speaks of by its name."""
    for path, node in proposal.nodes():
        if path[-1] != want.text:
            continue
        for other in node.others:
            yield proposal.replaced(path, replace(other, others=tuple(o for o in node.others if o is not other)))
        if node.kind == "number":
            yield proposal.replaced(path, replace(node, kind="text", text="0.5", why=want.why))
            for value in (1, 2, 0, 4, 16):
                if value != node.value:
                    yield proposal.replaced(path, replace(node, value=value, why=want.why))


def _tensors(proposal: Node, paths: frozenset[Path] | None) -> Iterator[tuple[Path, Node]]:
    for path, leaf in proposal.leaves():
        if leaf.kind == "tensor" and (paths is None or path in paths):
            yield path, leaf


def _prepared(proposal: Node) -> Iterator[Node]:
    """Let happen to an object what the program could do with it before."""
    for path, node in proposal.nodes():
        for other in node.others:
            if other.kind == "prepared":
                yield proposal.replaced(path, other)


def _guesses(proposal: Node, touched: frozenset[Path] | None) -> Iterator[Node]:
    """Yield changes that no error asks for: another rank, another dtype, something else altogether."""
    for path, leaf in _tensors(proposal, touched):
        for rank in (3, 4, 2, 1, 5, 0):
            if rank != len(leaf.shape):
                yield proposal.replaced(path, replace(leaf, shape=_reshaped(leaf.shape, rank)))
        for dtype in ("int64", "float32", "bool"):
            if dtype != leaf.dtype:
                yield proposal.replaced(path, replace(leaf, dtype=dtype))
    yield from _others(proposal, Want("other"))
    for path, leaf in proposal.leaves():
        if leaf.kind == "number":
            for value in (1, 2, 4, 8, 16, 32, 64):
                if value != leaf.value:
                    yield proposal.replaced(path, replace(leaf, value=value))


_CHANGES: dict[str, Callable[[Node, Want], Iterator[Node]]] = {
    "size": _sized,
    "rank": _ranked,
    "larger": _larger,
    "dtype": _typed,
    "range": _ranged,
    "shape": _shaped,
    "definite": _definite,
    "choice": _chosen,
    "unit": _unit,
    "device": _placed,
    "other": _others,
    "named": _named,
    "swap": _swapped,
    "lack": with_argument,
    "entry": with_entry,
    "attribute": with_attribute,
    "state": with_state,
    "behaviour": with_behaviour,
    "surplus": without_argument,
    "array": as_array,
    "instance": as_instance,
    "flag": as_flag,
    "several": as_several,
}
