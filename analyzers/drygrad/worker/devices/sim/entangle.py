"""Tensors of one call that share a storage, and must share one on the host too.

Each alias on the host has a storage of its own, so torch would not see that what it writes overlaps with what it reads.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from drygrad.worker.devices.sim.plans import Plan, argument
from drygrad.worker.devices.sim.relabel import to_host


def entangle(plan: Plan, args: Any, kwargs: dict[str, Any], host: list[Any], named: dict[str, Any]) -> None:
    """Replace the aliases of tensors that share the storage of one that is written to."""
    for where in plan.written:
        written = argument(where, args, kwargs)
        if not isinstance(written, Tensor) or not written.is_cuda:
            continue
        storage = _storage(written)
        given = [*enumerate(args), *kwargs.items()]
        sharing = [(slot, v) for slot, v in given if isinstance(v, Tensor) and v.is_cuda and _storage(v) == storage]
        if len(sharing) > 1:
            whole = _whole(written)
            for slot, value in sharing:
                _replace(slot, value, whole, host, named)


def _storage(tensor: Any) -> int:
    return tensor.untyped_storage()._cdata


def _whole(tensor: Tensor) -> Tensor:
    """The host's alias of all of a tensor's storage, flat."""
    count = tensor.untyped_storage().nbytes() // tensor.element_size()
    return to_host(tensor.as_strided((count,), (1,), 0))


def _replace(name: Any, tensor: Tensor, whole: Tensor, host: list[Any], named: dict[str, Any]) -> None:
    if tensor.dtype is not whole.dtype:
        whole = whole.view(tensor.dtype)
    same = whole.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
    if isinstance(name, str):
        named[name] = same
    else:
        host[name] = same
