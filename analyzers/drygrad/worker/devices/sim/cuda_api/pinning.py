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
        storage = result.untyped_storage()
        address = storage.data_ptr()
        if address not in PINNED:
            PINNED.add(address)
            weakref.finalize(storage, PINNED.discard, address)
        return result

    kind.pin_memory = pin_memory
