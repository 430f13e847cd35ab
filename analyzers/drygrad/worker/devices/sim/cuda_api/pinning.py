"""Page-locked host memory: ordinary memory here, of which it is known that it was asked for."""

from __future__ import annotations

import weakref
from typing import Any

import torch

from drygrad.worker.devices.sim.state import PINNED


def patch() -> None:
    """Remember what ``Tensor.pin_memory`` returned, for ``is_pinned``."""
    kind: Any = torch.Tensor
    pin = kind.pin_memory

    def pin_memory(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = pin(self, *args, **kwargs)
        _remember(result)
        return result

    kind.pin_memory = pin_memory


def remembering(func: Any) -> Any:
    """Return the operation, remembering what it returns where it is told to pin that."""

    def call(*args: Any, **kwargs: Any) -> Any:
        result = func(*args, **kwargs)
        if kwargs.get("pin_memory") and isinstance(result, torch.Tensor):
            _remember(result)
        return result

    return call


def _remember(tensor: torch.Tensor) -> None:
    storage = tensor.untyped_storage()
    address = storage.data_ptr()
    if address not in PINNED:
        PINNED.add(address)
        weakref.finalize(storage, PINNED.discard, address)
