"""Tensors without memory: plain ones of any device, at addresses where nothing can be written and all reads give zero.

A real address that nobody has is more than a made-up one: what looks beneath an operation, such as ``tolist``, reads
zeros there and does not end the process.
"""

from __future__ import annotations

import ctypes
import mmap
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


class _Managed(ctypes.Structure):
    """DLPack's ``DLManagedTensor``."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32),
        ("index", ctypes.c_int32),
        ("dimensions", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("offset", ctypes.c_uint64),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    )


_alive: dict[int, Any] = {}
"""What torch reads until it calls the deleter, by its address."""


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def _forget(address: int) -> None:
    _alive.pop(address, None)


_FORGET = ctypes.cast(_forget, ctypes.c_void_p).value


class Space:
    """A stretch of addresses."""

    def __init__(self) -> None:
        self.size, self.low = next(filter(None, map(_reserved, _SIZES)), (0, 0))
        if not self.size:
            raise OSError("the system gives no addresses away")
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
        sizes = (ctypes.c_int64 * (2 * count or 1))(*shape, *strides)
        first = ctypes.addressof(sizes)
        data = self._taken(shape, strides, dtype.itemsize)
        kind, index = (_CUDA, device.index or 0) if device.type == "cuda" else (_CPU, 0)
        made = _Managed(data, kind, index, count, *known, 1, first, first + 8 * count, 0, None, _FORGET)
        address = ctypes.addressof(made)
        _alive[address] = made, sizes
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


def _reserved(size: int) -> tuple[int, int] | None:
    """Return how many bytes of addresses there are, and where they begin; None where the system refuses."""
    ask: Any = ctypes.CDLL(None).mmap
    ask.restype = ctypes.c_void_p
    ask.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE
    address = ask(None, size, mmap.PROT_READ, flags, -1, 0)
    return None if address in (None, ctypes.c_void_p(-1).value) else (size, address)
