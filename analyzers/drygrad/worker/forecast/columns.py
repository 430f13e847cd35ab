"""Operations on lists of distributed tensors: how results are placed is found once for each kind of tensor.

Torch asks for each tensor of a list, and looks through all lists each time: in a step of an optimizer, with hundreds of
parameters, that would take nearly all of the time. What becomes of one tensor depends only on what stands in the same
place of the other lists.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import sys
from functools import wraps
from typing import Any, Callable, cast

from drygrad.worker.late_imports import when_imported

_PROPAGATION = "torch.distributed.tensor._sharding_prop"
_TENSOR = "torch.distributed.tensor._api"
_BY_PLACES = ("aten::_foreach_", "aten::_fused_")
Answer = Callable[[Any, Any], Any]


def install() -> None:
    """Let torch find for each kind of tensor what it would find for each tensor."""
    when_imported({_PROPAGATION: _change})


def _change(module: Any) -> None:
    kind: Any = getattr(module, "ShardingPropagator", None)
    name = "propagate_op_sharding_non_cached"
    if not hasattr(kind, name):
        return
    setattr(kind, name, once_for_each_kind(getattr(kind, name)))
    tensors: Any = sys.modules.get(_TENSOR)
    dispatcher: Any = getattr(getattr(tensors, "DTensor", None), "_op_dispatcher", None)
    if dispatcher is not None:  # what remembers answers was made for the function as it was
        known = dispatcher.sharding_propagator
        known.propagate_op_sharding = type(known.propagate_op_sharding)(getattr(known, name))


def once_for_each_kind(propagate: Answer) -> Answer:
    """Return a function that answers as ``propagate`` does, of shorter lists."""

    @wraps(propagate)
    def propagated(self: Any, schema: Any) -> Any:
        args: tuple[Any, ...] = schema.args_schema
        lists: list[Any] = [value for value in args if _is_list(value)]
        count = len(lists[0]) if lists else 0
        if not schema.op._schema.name.startswith(_BY_PLACES) or any(len(value) != count for value in lists):
            return propagate(self, schema)
        places, firsts = _kinds(lists)
        if len(firsts) == count:
            return propagate(self, schema)
        fewer = tuple([_picked(value, firsts) if _is_list(value) else value for value in args])
        found = propagate(self, type(schema)(schema.op, fewer, schema.kwargs_schema, schema.schema_info))
        specs = found.output_spec
        if found.needs_redistribute or not (specs is None or len(specs) == len(firsts)):
            return propagate(self, schema)
        return type(found)(specs if specs is None else _picked(specs, places), None)

    return propagated


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and bool(cast("list[Any]", value))


def _kinds(lists: list[Any]) -> tuple[list[int], list[int]]:
    """Return the kind of each place, as a number, and for each kind the first place that is of it."""
    known: dict[Any, int] = {}
    firsts: list[int] = []
    places: list[int] = []
    columns = cast("list[tuple[object, ...]]", [*zip(*lists)])
    for place, column in enumerate(columns):
        key = tuple([(type(item), item) for item in column])
        if key not in known:
            known[key] = len(firsts)
            firsts.append(place)
        places.append(known[key])
    return places, firsts


def _picked(values: Any, places: list[int]) -> Any:
    return type(values)(values[place] for place in places)
