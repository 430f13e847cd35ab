"""Views, resizing, and storages as objects of their own."""

from __future__ import annotations

import math
from typing import Any, Callable

import torch
from torch import Tensor

from drygrad.worker.devices.sim import memory
from drygrad.worker.devices.sim.errors import Unsupported
from drygrad.worker.devices.sim.internals import HOST, HOST_KEYS, aten
from drygrad.worker.devices.sim.relabel import to_device, to_host
from drygrad.worker.devices.sim.state import STATE, checked, report_sync

METADATA_ONLY = (
    "as_strided view view.dtype _reshape_alias unfold set_ set_.source_Storage set_.source_Storage_storage_offset "
    "set_.source_Tensor"
).split()


def redispatched(op: Any) -> Callable[..., Any]:
    """A kernel for operators that touch no memory: the host's own, on the very tensor."""
    keys = HOST_KEYS
    redispatch = getattr(getattr(op, "_handle", None), "redispatch_boxed", op.redispatch)

    def run(*args: Any, **kwargs: Any) -> Any:
        return redispatch(keys, *args, **kwargs)

    return run


def resize_(self: Tensor, size: list[int], memory_format: torch.memory_format | None = None) -> Tensor:
    """``aten::resize_``: new memory where the old is too small, since memory under a capsule cannot grow."""
    count = math.prod(size)
    if (self.storage_offset() + count) * self.element_size() <= self.untyped_storage().nbytes():
        return aten.resize_.default.redispatch(HOST_KEYS, self, size, memory_format=memory_format)
    grown = torch.empty(size, dtype=self.dtype, device=HOST)
    kept = min(self.numel(), count)
    if kept:
        grown.view(-1)[:kept].copy_(to_host(self).reshape(-1)[:kept])
    self.data = to_device(grown, self.get_device())
    return self


def storage_to_device(storage: Any, index: int) -> Any:
    """A copy of a storage on a simulated device."""
    storage = getattr(storage, "_untyped_storage", storage)
    report_sync("h2d", "aten::copy_")
    with torch.device("cpu"):
        copy = torch.empty(0, dtype=torch.uint8, device=HOST).set_(storage).clone()
    return to_device(copy, index).untyped_storage()


def patch() -> None:
    """Let storages be cloned, moved and loaded on simulated devices."""
    kind: Any = torch.UntypedStorage
    clone, to, resize, nbytes = kind.clone, kind.to, kind.resize_, kind.nbytes

    def cloned(self: Any) -> Any:
        if self.device.type != "cuda":
            return clone(self)
        return torch.empty(0, dtype=torch.uint8, device=self.device).set_(self).clone().untyped_storage()

    def moved(self: Any, *, device: Any, non_blocking: bool = False) -> Any:
        target = torch.device(device)
        if target.type == "cuda" and self.device.type == "cpu":
            return storage_to_device(self, _index(target.index))
        return to(self, device=device, non_blocking=non_blocking)

    def on_device(self: Any, device: Any = None, non_blocking: bool = False) -> Any:
        return moved(self, device=torch.device("cuda", _index(device)), non_blocking=non_blocking)

    def resized(self: Any, size: int) -> Any:
        if self.device.type != "cuda":
            return resize(self, size)
        if size > nbytes(self):
            raise Unsupported("the memory of a storage on the simulated device cannot grow")
        memory.resize(self, size)  # the host's memory stays: only what is counted changes
        return self

    def counted(self: Any) -> int:
        known = memory.size_of(self) if self.device.type == "cuda" else None
        return nbytes(self) if known is None else known

    kind.clone, kind.to, kind.cuda, kind.resize_, kind.nbytes = cloned, moved, on_device, resized, counted
    torch.serialization.register_package(1, _tag, _restored)


def _index(device: Any) -> int:
    if device is None:
        return STATE.current
    return checked(device if isinstance(device, int) else torch.device(device).index or 0)


def _tag(storage: Any) -> str | None:
    return f"cuda:{storage.device.index}" if storage.device.type == "cuda" else None


def _restored(storage: Any, location: str) -> Any:
    if not location.startswith("cuda"):
        return None
    index = int(location[len("cuda:") :] or STATE.current)
    if index >= STATE.devices:
        raise RuntimeError(
            f"Attempting to deserialize object on CUDA device {index} but torch.cuda.device_count() is "
            f"{STATE.devices}. Please use torch.load with map_location to map your storages to an existing device."
        )
    return storage_to_device(storage, index)
