"""How many bytes live on the simulated devices, as the caching allocator would count them.

A storage on the device is the host storage underneath, held by the DLPack capsule: it is on the device for as long as
a weak reference to that host storage lives.
"""

from __future__ import annotations

import weakref
from typing import Any, Callable, Protocol

from torch import Tensor

from drygrad.worker.devices.sim.errors import out_of_memory
from drygrad.worker.devices.sim.state import STATE

GRANULE = 512  # bytes: the caching allocator rounds every request up to a multiple


class Usage:
    """Bytes on one device, with the counts that ``memory_stats`` tells."""

    def __init__(self) -> None:
        self.allocated = self.peak = self.allocations = self.frees = self.most = self.total = 0


class Allocation(weakref.ref):  # type: ignore[type-arg]
    """A storage on a device, until its host storage dies."""

    __slots__ = ("address", "given_back", "key", "size", "usage")
    address: int
    given_back: int | None
    """What is left of its bytes where the program has given some back; None where it has not."""
    key: int
    size: int
    usage: Usage


class Watcher(Protocol):
    """Hears of all that is taken and released; then nothing is too much for a device."""

    def taken(self, size: int, address: int, device: int) -> None:
        """Hear of a new storage."""
        ...

    def released(self, address: int) -> None:
        """Hear of the end of one."""
        ...

    def used(self, address: int, stream: int) -> None:
        """Hear of one that another stream uses, too."""
        ...

    def resized(self, size: int, address: int, device: int) -> None:
        """Hear of one that has given memory back, or takes it again."""
        ...


watcher: Watcher | None = None
_usages: dict[int, Usage] = {}
_live: dict[int, Allocation] = {}
_at: dict[int, Allocation] = {}
"""The same by their addresses, which they share with the device's own storages."""
on_first_use: list[Callable[[], None]] = []
"""What is called once, when something first lives on a device."""


def usage(index: int = 0) -> Usage:
    """The figures of one device."""
    found = _usages.get(index)
    if found is None:
        found = _usages[index] = Usage()
    return found


def allocated(index: int = 0) -> int:
    """Bytes that live on a device now."""
    return usage(index).allocated


def max_allocated(index: int = 0) -> int:
    """The most bytes that have lived on a device since the last reset."""
    return usage(index).peak


def is_used() -> bool:
    """Whether anything has ever lived on a device."""
    return any(found.allocations for found in _usages.values())


def reset_peak(index: int = 0) -> None:
    """Begin to look for the peak anew, from what lives now."""
    found = usage(index)
    found.peak = found.allocated


def take(tensor: Tensor, index: int) -> None:
    """Count the storage of a fresh host tensor as one of a device.

    Raises ``torch.OutOfMemoryError`` where it does not fit.
    """
    storage: Any = tensor.untyped_storage()
    key = storage._cdata
    size = storage.nbytes()
    if not size or key in _live:
        return
    size = _rounded(size)
    require(size, index)
    found = usage(index)
    reference = Allocation(storage, _release)
    reference.key, reference.size, reference.usage, reference.given_back = key, size, found, None
    reference.address = storage.data_ptr()
    _live[key] = _at[reference.address] = reference
    found.allocations += 1
    found.most = max(found.most, found.allocations - found.frees)
    found.total += size
    found.allocated += size
    found.peak = max(found.peak, found.allocated)
    if watcher is not None:
        watcher.taken(size, reference.address, index)
    while on_first_use:
        on_first_use.pop()()


def _release(reference: Any) -> None:
    del _live[reference.key]
    if _at.get(reference.address) is reference:
        del _at[reference.address]
    found = reference.usage
    found.frees += 1
    found.allocated -= reference.size
    if watcher is not None and reference.size:
        watcher.released(reference.address)


def resize(storage: Any, size: int) -> None:
    """Count a storage with another size: it gives memory back, or takes again what it has given back."""
    reference = _at.get(storage.data_ptr())
    rounded = _rounded(size)
    if reference is None or reference.size == rounded:
        return
    found = reference.usage
    found.allocated += rounded - reference.size
    found.peak = max(found.peak, found.allocated)
    reference.size, reference.given_back = rounded, size
    if watcher is not None:
        watcher.resized(rounded, reference.address, storage.device.index or 0)


def use(tensor: Any, stream: Any) -> None:
    """Let the watcher hear of a stream that uses a tensor (``record_stream``): nothing here ever waits for one."""
    if watcher is not None:
        watcher.used(tensor.untyped_storage().data_ptr(), stream.stream_id)


def size_of(storage: Any) -> int | None:
    """Return the bytes of a storage that has given some back; None of any other."""
    reference = _at.get(storage.data_ptr())
    return reference.given_back if reference is not None else None


def _rounded(size: int) -> int:
    return -(-size // GRANULE) * GRANULE


def require(size: int, index: int) -> None:
    """Raise ``torch.OutOfMemoryError`` where ``size`` more bytes would not fit on a device."""
    found = usage(index)
    if watcher is None and found.allocated + size > STATE.total_memory:
        raise out_of_memory(size, index, STATE.total_memory, found.allocated)
