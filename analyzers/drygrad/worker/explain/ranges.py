"""Which operations look values up, and what those values must lie between."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import torch

from drygrad.worker.naming import Call
from drygrad.worker.reading import extremes, is_readable, quietly
from drygrad.worker.watch import Op

Why = Callable[[Call], str]


class Range(NamedTuple):
    """What the values of a tensor must lie in: ``low`` included; ``high`` excluded for indices, else included.

    ``why`` says where the bound comes from; ``ignored`` is a value that is allowed besides.
    """

    argument: str
    values: torch.Tensor
    low: float
    high: float
    why: Why
    ignored: int | None = None


@dataclass(frozen=True)
class Breach:
    """The first value outside its range, where it stands, and how many there are."""

    range: Range
    position: tuple[int, ...]
    value: float
    count: int


def breach(op: Op) -> Breach | None:
    """Return the first value that the operation's kernel would refuse, at the cost of one wait for the device."""
    ranges = _RANGES.get(op.name)
    for wanted in ranges(op) if ranges else ():
        found = outside(wanted)
        if found:
            return found
    return None


def is_index(wanted: Range) -> bool:
    """Say whether the values are indices, not probabilities."""
    return not wanted.values.is_floating_point()


def outside(wanted: Range) -> Breach | None:
    """Return the first value outside a range."""
    values, low, high = wanted.values, wanted.low, wanted.high
    found = extremes(values)
    indices = is_index(wanted)
    if found is None or (found[0] >= low and (found[1] < high if indices else found[1] <= high)):
        return None
    with quietly():
        inside = (values >= low) & ((values < high) if indices else (values <= high))
        if wanted.ignored is not None:
            inside |= values == wanted.ignored
        places: Any = (~inside).nonzero()
        if not len(places):
            return None
        position = tuple(cast("list[int]", places[0].tolist()))
        return Breach(wanted, position, values[position].item(), len(places))


def _entries(argument: str, dim: Any, *, wraps: bool = False) -> Callable[[Op], Iterator[Range]]:
    """Indices along a dimension of ``self``; ``dim`` is a number or the name of the argument that holds it."""

    def ranges(op: Op) -> Iterator[Range]:
        source = op.args[0]
        axis = op.argument(dim) if isinstance(dim, str) else dim
        size = source.shape[axis] if source.dim() else 1
        yield from _indices(op, argument, size, _dimension(source, axis), wraps)

    return ranges


def _dimension(source: torch.Tensor, axis: int) -> Why:
    size = source.shape[axis] if source.dim() else 1
    number = axis % max(source.dim(), 1)
    return lambda call: f"dimension {number} of {call.describe(source, 'the tensor')} has {size} entries"


def _because(why: str) -> Why:
    return lambda call: why


def _indices(op: Op, argument: str, size: int, why: Why, wraps: bool = False) -> Iterator[Range]:
    values = op.argument(argument)
    if is_readable(values) and not values.is_floating_point():
        yield Range(argument, values, -size if wraps else 0, size, why)


def _rows(op: Op) -> Iterator[Range]:
    table = op.args[0]

    def why(call: Call) -> str:
        module = call.module()
        if module and isinstance(module[0], (torch.nn.Embedding, torch.nn.EmbeddingBag)):
            return f"{module[1]} has num_embeddings={table.shape[0]}"
        return f"{call.describe(table, 'the table')} has {table.shape[0]} rows"

    yield from _indices(op, "indices", table.shape[0], why)


def _classes(op: Op) -> Iterator[Range]:
    scores = op.args[0]
    count = scores.shape[1 if scores.dim() > 1 else 0]
    if is_readable(op.argument("target")) and not op.argument("target").is_floating_point():
        yield Range(
            "target",
            op.argument("target"),
            -1 if op.name == "aten::multilabel_margin_loss_forward" else 0,
            count,
            _because(f"the model has {count} classes"),
            op.argument("ignore_index"),
        )


def _subscripts(op: Op) -> Iterator[Range]:
    source, axis = op.args[0], 0
    for index in op.argument("indices"):
        if index is None:
            axis += 1
        elif index.dtype in (torch.bool, torch.uint8):
            axis += index.dim()
        else:
            size = source.shape[axis]
            if is_readable(index):
                yield Range("index", index, -size, size, _dimension(source, axis))
            axis += 1


def _elements(op: Op) -> Iterator[Range]:
    source = op.args[0]
    count = source.numel()
    yield from _indices(
        op, "index", count, lambda call: f"{call.describe(source, 'the tensor')} has {count} elements", True
    )


def _unpooled(op: Op) -> Iterator[Range]:
    count = 1
    for size in op.argument("output_size"):
        count *= size
    yield from _indices(op, "indices", count, _because(f"the output has {count} elements per channel"))


def _counts(argument: str, noun: str) -> Callable[[Op], Iterator[Range]]:
    def ranges(op: Op) -> Iterator[Range]:
        values = op.argument(argument)
        if is_readable(values) and not values.is_floating_point():
            yield Range(argument, values, 0, float("inf"), _because(f"{noun} cannot be negative"))

    return ranges


def _probabilities(argument: str, high: float, why: str) -> Callable[[Op], Iterator[Range]]:
    def ranges(op: Op) -> Iterator[Range]:
        values = op.argument(argument)
        if is_readable(values) and values.is_floating_point():
            yield Range(argument, values, 0.0, high, _because(why))

    return ranges


def _table() -> dict[str, Callable[[Op], Iterator[Range]]]:
    along = _entries("index", "dim")
    either = ("", "_")
    table: dict[str, Callable[[Op], Iterator[Range]]] = {
        "gather": along,
        "index_select": along,
        "bincount": _counts("self", "what bincount counts"),
        "repeat_interleave": _counts("repeats", "repeats"),
        "binary_cross_entropy": _probabilities("self", 1.0, "binary_cross_entropy expects probabilities"),
        "multinomial": _probabilities(
            "self", torch.finfo(torch.float64).max, "multinomial expects finite, non-negative weights"
        ),
        "nll_loss_forward": _classes,
        "nll_loss2d_forward": _classes,
        "multi_margin_loss": _classes,
        "multilabel_margin_loss_forward": _classes,
        "take": _elements,
    }
    for name in ("scatter", "scatter_add", "scatter_reduce", "index_add", "index_copy", "index_fill", "index_reduce"):
        table.update(dict.fromkeys((name + end for end in either), along))
    for name in ("index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index", "_unsafe_index_put"):
        table[name] = _subscripts
    table.update(
        dict.fromkeys(("embedding", "embedding_renorm_", "_embedding_bag", "_embedding_bag_forward_only"), _rows)
    )
    table.update(dict.fromkeys(("put", "put_"), _elements))
    table.update(dict.fromkeys(("max_unpool2d", "max_unpool3d"), _unpooled))
    table.update({"bernoulli": _bernoulli, "bernoulli_": _bernoulli})
    return {"aten::" + name: ranges for name, ranges in table.items()}


def _bernoulli(op: Op) -> Iterator[Range]:
    argument = "p" if isinstance(op.argument("p"), torch.Tensor) else "self"
    if argument == "p" or (op.name == "aten::bernoulli" and op.argument("p") is None):
        yield from _probabilities(argument, 1.0, "bernoulli expects probabilities")(op)


_RANGES = _table()
CHECKED = frozenset(_RANGES)
"""The operations that have a range to check."""
