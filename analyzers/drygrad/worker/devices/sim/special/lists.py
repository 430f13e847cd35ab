"""Operators on lists of tensors, which a GPU takes pair by pair where their devices differ."""

from __future__ import annotations

from typing import Any, Callable

from torch import Tensor

from drygrad.worker.devices.sim.internals import SEQUENCES
from drygrad.worker.devices.sim.mismatch import iterated
from drygrad.worker.devices.sim.relabel import to_host

UNKNOWN = -2
Kernel = Callable[..., Any]


def paired(op: Any, inner: Kernel) -> Kernel:
    """A kernel for ``_foreach_*``: one call where all is on one device, else one call for each place in the lists.

    ``inner`` is the general kernel. What writes in place on one device, as optimizers do, needs less than that.
    """
    run, in_place = getattr(op, "_op", op), op._schema.name.endswith("_")

    def paired_run(*args: Any, **kwargs: Any) -> Any:
        host, single = _hosted(args)
        if not single:
            return _pair_by_pair(op, inner, args, kwargs)
        if in_place and not kwargs:
            run(*host)
            return None if not op._schema.returns else args[0]
        return inner(*args, **kwargs)

    return paired_run


def _hosted(args: Any) -> tuple[list[Any], bool]:
    """The arguments with lists of host tensors, and whether all tensors of lists are on one device."""
    host: list[Any] = []
    index = UNKNOWN
    for value in args:
        if isinstance(value, SEQUENCES) and value and isinstance(value[0], Tensor):
            index = value[0].get_device() if index == UNKNOWN else index
            for tensor in value:
                if tensor.get_device() != index or index < 0:
                    return host, False
            host.append([to_host(tensor) for tensor in value])
        elif isinstance(value, Tensor) and value.is_cuda:
            host.append(to_host(value))
        else:
            host.append(value)
    return host, True


def _pair_by_pair(op: Any, inner: Kernel, args: Any, kwargs: dict[str, Any]) -> Any:
    lists = [value for value in args if _tensors(value)]
    length = len(lists[0])
    if any(len(value) != length for value in lists):
        return inner(*args, **kwargs)
    results: list[Any] = []
    for place in range(length):
        mine = [[value[place]] if _tensors(value) else value for value in args]
        here = [tensor for value in mine for tensor in _tensors(value)]
        if op._schema.name.endswith("_foreach_copy_"):
            here[0].copy_(here[1])
        elif error := iterated(here, written=here[:1] if op._schema.name.endswith("_") else ()):
            raise error
        else:
            on_device = any(tensor.is_cuda for tensor in here)
            results += (inner if on_device else op)(*mine, **kwargs) or []
    return results if op._schema.returns else None


def _tensors(value: Any) -> list[Tensor]:
    return [item for item in value if isinstance(item, Tensor)] if isinstance(value, SEQUENCES) else []
