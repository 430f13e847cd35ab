"""Tensors over the same memory that say another device, by way of a DLPack capsule whose device is rewritten."""

from __future__ import annotations

import ctypes
from typing import Any

import torch
from torch import Tensor

from drygrad.worker.devices.sim import memory
from drygrad.worker.devices.sim.errors import Unsupported
from drygrad.worker.devices.sim.internals import C
from drygrad.worker.devices.sim.state import STATE

__all__ = ["STATE", "Lazy", "alias", "to_device", "to_host"]

DLPACK_CPU, DLPACK_CUDA = 1, 2
DEVICE_FIELD = 8  # of DLTensor, after the data pointer

CAPSULE_POINTER = object.__basicsize__  # of a capsule, its first field; a call of its getter would take longer

_field = ctypes.c_int64.from_address
_export, _import = C._to_dlpack, C._from_dlpack
_negated: Any = vars(torch)["_neg_view"]


class Lazy:
    """Whether a complex tensor was ever on a device: only then can one have a lazy bit, which DLPack drops."""

    possible = False


def to_host(tensor: Tensor) -> Tensor:
    """A host tensor over the memory of a simulated one, without autograd."""
    capsule = _export(tensor)
    _field(_field(id(capsule) + CAPSULE_POINTER).value + DEVICE_FIELD).value = DLPACK_CPU
    return _marked(tensor, _import(capsule)) if Lazy.possible else _import(capsule)


def alias(tensor: Tensor, index: int) -> Tensor:
    """A tensor of device ``index`` over the memory of a host tensor, which is accounted for elsewhere."""
    if tensor.is_complex():
        Lazy.possible = True
    capsule = _export(tensor)
    _field(_field(id(capsule) + CAPSULE_POINTER).value + DEVICE_FIELD).value = DLPACK_CUDA | index << 32
    return _marked(tensor, _import(capsule)) if Lazy.possible else _import(capsule)


def to_device(tensor: Tensor, index: int) -> Tensor:
    """A tensor of device ``index`` that takes over the memory of a fresh host tensor, and is accounted for."""
    try:
        memory.take(tensor, index)
        return alias(tensor, index)
    except (RuntimeError, BufferError) as error:
        if tensor.layout is torch.strided and not (tensor.is_nested or tensor.is_quantized):
            raise
        raise Unsupported(f"the simulated device supports dense tensors of ordinary dtypes only: {error}") from error


def _marked(source: Tensor, copy: Tensor) -> Tensor:
    if source.is_neg():
        copy = _negated(copy)
    if source.is_conj():
        copy = torch.conj(copy)
    return copy
