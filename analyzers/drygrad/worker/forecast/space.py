"""Tensors without memory: plain ones of any device, at addresses where nothing can be written and all reads give zero.

A real address that nobody has is more than a made-up one: what looks beneath an operation, such as ``tolist``, reads
zeros there and does not end the process.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
from functools import cache
from typing import Any

import torch

_CPU, _CUDA = 1, 2  # of DLPack
_GRAIN = 512
_SIZES = (1 << 46, 1 << 44, 1 << 42, 1 << 40)
"""How many addresses to ask the system for: it may grant fewer, and takes no memory for any."""
_NO_RESERVE = 0x4000
_import: Any = torch._C._from_dlpack  # pyright: ignore
_new_capsule: Any = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype, _new_capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_KINDS = {  # code and bits, as DLPack has them
    torch.float64: (2, 64),
    torch.float32: (2, 32),
    torch.float16: (2, 16),
    torch.bfloat16: (4, 16),
    torch.int64: (0, 64),
    torch.int32: (0, 32),
    torch.int16: (0, 16),
    torch.int8: (0, 8),
    torch.uint8: (1, 8),
    torch.bool: (6, 8),
    torch.complex64: (5, 64),
    torch.complex128: (5, 128),
}
_PLAIN = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64, 16: torch.complex128}
"""What has the width of a dtype that DLPack does not know."""


_HEADER = struct.Struct("=QiiiBBHQQQQQ")
"""DLPack's ``DLManagedTensor``: data, device and its number, how many dimensions, code, bits, lanes; then pointers to
shape and strides, the offset, a context, and what is called with the whole in the end."""
_LIBC = ctypes.CDLL(None)
_LIBC.malloc.restype, _LIBC.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
_FREE = ctypes.cast(_LIBC.free, ctypes.c_void_p).value or 0
"""What ends a tensor is no Python: it may end while an error passes."""


class Space:
    """A stretch of addresses."""

    def __init__(self) -> None:
        self.size, self.low = next(filter(None, map(_reserved, _SIZES)), (0, 0))
        if not self.size:
            raise OSError("the system does not reserve addresses")
        self.high = self.low + self.size
        self._next = self.low

    def has(self, tensor: torch.Tensor) -> bool:
        """Say whether a tensor is one without memory."""
        return self.low <= tensor.data_ptr() < self.high

    def tensor(self, shape: Any, strides: Any, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        """Return a tensor of that kind, with a storage of its own."""
        known = _KINDS.get(dtype)
        if known is None:
            return self.tensor(shape, strides, _PLAIN[dtype.itemsize], device).view(dtype)
        count = len(shape)
        address: int = _LIBC.malloc(_HEADER.size + 16 * count)
        first = address + _HEADER.size
        data = self._taken(shape, strides, dtype.itemsize)
        kind, index = (_CUDA, device.index or 0) if device.type == "cuda" else (_CPU, 0)
        header = _HEADER.pack(data, kind, index, count, *known, 1, first, first + 8 * count, 0, 0, _FREE)
        whole = header + struct.pack(f"={2 * count}q", *shape, *strides)
        ctypes.memmove(address, whole, len(whole))
        return _import(_new_capsule(address, b"dltensor", None))

    def _taken(self, shape: Any, strides: Any, width: int) -> int:
        extent = 1
        for size, stride in zip(shape, strides):
            if not size:
                return 0
            extent += (size - 1) * stride
        taken = -(-extent * width // _GRAIN) * _GRAIN
        if self._next + taken > self.high:
            self._next = self.low  # what was given long ago is free again, and nothing is ever written
        self._next += taken
        return self._next - taken


@cache
def the_space() -> Space:
    """Return that of this process."""
    return Space()


def _reserved(size: int) -> tuple[int, int] | None:
    """Return how many bytes of addresses there are, and where they begin; None where the system refuses."""
    ask: Any = _LIBC.mmap
    ask.restype = ctypes.c_void_p
    ask.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE
    address = ask(None, size, mmap.PROT_READ, flags, -1, 0)
    return None if address in (None, ctypes.c_void_p(-1).value) else (size, address)
