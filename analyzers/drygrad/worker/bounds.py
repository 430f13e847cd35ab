"""What no value in a tensor's memory exceeds: where that is known, nobody has to look whether the values are finite."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import math
from typing import Any, Union

import torch

from drygrad.worker.reading import HALVES, at_hand

_Tensor: Any = torch.Tensor
_length_of: Any = torch.linalg.vector_norm  # pyright: ignore
UNKNOWN = math.inf
LIMITS = {torch.float16: 1e4, torch.bfloat16: 1e30, torch.float32: 1e30, torch.float64: 1e30}
"""By dtype: up to which bound of a result nothing has overflown on the way to it, whatever was added up there."""


Known = tuple[int, Union[torch.dtype, None], float]
"""What is known of a storage: in which epoch, of which dtype, and the bound."""
_SHARED = (-2, None, UNKNOWN)
_OWNED = (-1, None, UNKNOWN)
_ATTRIBUTE = "drygrad_bound"


class Bounds:
    """Bounds of magnitudes by storage: views share theirs, and each is as true of a part as of the whole.

    A bound holds until something writes there. All that an operation writes is heard of; memory on the host can also
    be written by others, so it has bounds only where an operation has made it and nobody got it as an array. On a
    real GPU none holds: kernels of other libraries write there. The storages themselves carry what is known of them,
    which so ends with them.
    """

    def __init__(self, device: str) -> None:
        self.hold = device != "cuda"
        self.most = 0
        """How many elements an operand may have to be measured."""
        self._epoch = 0
        setattr(torch.UntypedStorage, _ATTRIBUTE, None)

    def clear(self) -> None:
        """Remember nothing."""
        self._epoch += 1

    def known(self, tensor: Any) -> float:
        """Return what the magnitudes in a tensor do not exceed; infinity where that is not known."""
        known: Known | None = tensor.untyped_storage().drygrad_bound
        if known is not None and known[1] is tensor.dtype and known[0] == self._epoch:
            return known[2]
        return UNKNOWN

    def keep(self, tensor: Any, bound: float) -> None:
        """Remember a bound of all the memory under a tensor that is an operation's; infinity if it has none."""
        storage = tensor.untyped_storage()
        if self.hold and storage.drygrad_bound is not _SHARED:
            storage.drygrad_bound = (self._epoch, tensor.dtype, bound)

    def own(self, tensor: Any) -> None:
        """Note that an operation has made the memory under a tensor, of which nothing else is known."""
        storage = tensor.untyped_storage()
        if storage.drygrad_bound is not _SHARED:
            storage.drygrad_bound = _OWNED

    def overwritten(self, tensor: Any, bound: float, before: float) -> None:
        """Remember a bound of what an operation has written to memory of which there was one before, or none."""
        storage = tensor.untyped_storage()
        if (tensor.is_cuda or storage.drygrad_bound is not None) and _is_all_of(storage, tensor):
            self.keep(tensor, bound)
        elif before < UNKNOWN:
            self.keep(tensor, max(bound, before))

    def forget(self, tensor: Any) -> None:
        """Remember nothing of the memory under a tensor."""
        storage = tensor.untyped_storage()
        if storage.drygrad_bound not in (None, _SHARED):
            storage.drygrad_bound = _OWNED

    def share(self, tensor: Any) -> None:
        """Know nothing of the memory under a tensor from now on: others may write to it."""
        tensor.untyped_storage().drygrad_bound = _SHARED

    def measured(self, tensor: Any) -> float:
        """Return the length of a tensor taken as a vector: no magnitude exceeds it, and it is finite if they are.

        It is infinite, too, where the sum of the squares is.
        """
        length = _length(tensor)
        return length if math.isfinite(length) else UNKNOWN

    def operand(self, value: Any) -> float:
        """Return the bound of an operand: known, or measured where that is little work."""
        if not isinstance(value, _Tensor):
            return abs(value) if isinstance(value, (int, float)) else UNKNOWN
        dtype, storage = value.dtype, value.untyped_storage()
        known = storage.drygrad_bound
        if known is not None and known[1] is dtype and known[0] == self._epoch:
            return known[2]
        if dtype not in LIMITS:
            return 1.0 if dtype is torch.bool else UNKNOWN
        return self._measured_operand(value, storage, known) if value.numel() <= self.most else UNKNOWN

    def _measured_operand(self, value: Any, storage: Any, known: Known | None) -> float:
        bound = _greatest(value)
        if (value.is_cuda or known not in (None, _SHARED)) and _is_all_of(storage, value):
            self.keep(value, bound)
        return bound


def _is_all_of(storage: Any, tensor: Any) -> bool:
    """Say whether a tensor has all the elements of its storage, as it is or transposed."""
    if storage.nbytes() != tensor.numel() * tensor.element_size():
        return False
    return tensor.is_contiguous() or (tensor.dim() == 2 and tensor.stride() == (1, tensor.shape[0]))


def _greatest(tensor: Any) -> float:
    """Return the greatest magnitude in a tensor: a closer bound than the length, for a little more work."""
    if not tensor.numel():
        return 0.0
    tensor = at_hand(tensor)
    if tensor.dim() == 2 and tensor.stride(0) == 1:
        tensor = tensor.t()  # as weights come: in the order of the memory it takes a fraction of the time
    low, high = torch.aminmax(tensor)
    bound = max(-low.item(), high.item())
    return bound if math.isfinite(bound) else UNKNOWN


def _length(tensor: Any) -> float:
    tensor = at_hand(tensor)
    if tensor.dtype in HALVES:
        return _length_of(tensor, 2, None, False, dtype=torch.float32).item()
    return _length_of(tensor).item()
