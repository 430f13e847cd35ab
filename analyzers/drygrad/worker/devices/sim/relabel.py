"""Tensors over the same memory that say another device, by way of a DLPack capsule whose device is rewritten."""

from __future__ import annotations

import ctypes
from typing import Any

import torch
from torch import Tensor

from drygrad.worker.devices.sim import memory
from drygrad.worker.devices.sim.internals import C

DLPACK_CPU, DLPACK_CUDA = 1, 2
DEVICE_FIELD = 8  # of DLTensor, after the data pointer

_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype = ctypes.c_void_p
_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_field = ctypes.c_int64.from_address
_export, _import = C._to_dlpack, C._from_dlpack
_negated: Any = vars(torch)["_neg_view"]


def to_host(tensor: Tensor) -> Tensor:
    """A host tensor over the memory of a simulated one, without autograd."""
    capsule = _export(tensor)
    _field(_pointer(capsule, b"dltensor") + DEVICE_FIELD).value = DLPACK_CPU
    return _marked(tensor, _import(capsule))


def alias(tensor: Tensor, index: int) -> Tensor:
    """A tensor of device ``index`` over the memory of a host tensor, which is accounted for elsewhere."""
    capsule = _export(tensor)
    _field(_pointer(capsule, b"dltensor") + DEVICE_FIELD).value = DLPACK_CUDA | index << 32
    return _marked(tensor, _import(capsule))


def to_device(tensor: Tensor, index: int) -> Tensor:
    """A tensor of device ``index`` that takes over the memory of a fresh host tensor, and is accounted for."""
    memory.take(tensor, index)
    return alias(tensor, index)


def _marked(source: Tensor, copy: Tensor) -> Tensor:
    """Give a copy the two lazy bits that DLPack drops."""
    if source.is_neg():
        copy = _negated(copy)
    if source.is_conj():
        copy = torch.conj(copy)
    return copy
