"""Operators on lists of tensors, which a GPU takes pair by pair where their devices differ."""

from __future__ import annotations

from typing import Any, Callable

from torch import Tensor

from drygrad.worker.devices.sim.internals import SEQUENCES
from drygrad.worker.devices.sim.mismatch import iterated

Kernel = Callable[..., Any]


def paired(op: Any, inner: Kernel) -> Kernel:
    """A kernel for ``_foreach_*``: one call where all is on one device, else one call for each place in the lists."""
    copying = op._schema.name.endswith("_foreach_copy_")

    def run(*args: Any, **kwargs: Any) -> Any:
        devices = {tensor.device for value in args for tensor in _tensors(value)}
        if len(devices) <= 1:
            return inner(*args, **kwargs)
        lists = [value for value in args if _tensors(value)]
        length = len(lists[0])
        if any(len(value) != length for value in lists):
            return inner(*args, **kwargs)
        results: list[Any] = []
        for place in range(length):
            mine = [[value[place]] if _tensors(value) else value for value in args]
            here = [tensor for value in mine for tensor in _tensors(value)]
            if copying:
                here[0].copy_(here[1])
            elif error := iterated(here):
                raise error
            else:
                on_device = any(tensor.is_cuda for tensor in here)
                results += (inner if on_device else op)(*mine, **kwargs) or []
        return results if op._schema.returns else None

    return run


def _tensors(value: Any) -> list[Tensor]:
    return [item for item in value if isinstance(item, Tensor)] if isinstance(value, SEQUENCES) else []
