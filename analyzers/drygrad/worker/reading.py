"""Reading tensors from inside a hook: unseen by modes, autograd and overrides, and only where it is possible."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import sys
from collections.abc import Iterable
from operator import attrgetter
from typing import Any

import torch

_torch_c: Any = torch._C
_is_wrapped: Any = _torch_c._functorch.is_functorch_wrapped_tensor
_has_storage: Any = _torch_c._has_storage
_overriding_modes: Any = _torch_c._len_torch_function_stack
_is_lazy: Any = torch.nn.parameter.is_lazy
_Tensor: Any = torch.Tensor
HALVES = (torch.float16, torch.bfloat16)
"""The floating dtypes of two bytes."""
_EXACT = (torch.Tensor, torch.nn.Parameter)
_dispatch_of = attrgetter("__torch_dispatch__")
_plain_dispatch: Any = _dispatch_of(_Tensor)


class quietly:
    """Compute something of our own: no instrument hears of it, autograd records nothing, no override interferes."""

    __slots__ = ("_dispatch", "_function", "_grad")

    def __enter__(self) -> None:
        self._function: Any = _torch_c.DisableTorchFunction()
        self._function.__enter__()
        self._dispatch: Any = _torch_c._DisableTorchDispatch()
        self._dispatch.__enter__()
        self._grad: bool = torch.is_grad_enabled()
        if self._grad:
            _torch_c._set_grad_enabled(False)

    def __exit__(self, *error: object) -> None:
        if self._grad:
            _torch_c._set_grad_enabled(True)
        self._dispatch.__exit__(*error)
        self._function.__exit__(*error)


def dispatch_themselves(types: Iterable[type]) -> bool:
    """Say whether one of these kinds of tensors takes operations into its own hands: a fake, a wrapper."""
    return any(_dispatch_of(kind) is not _plain_dispatch for kind in types)


def is_plain(value: Any) -> bool:
    """Say whether a value is a dense tensor of torch's own, or a subclass that leaves the operations to torch."""
    if type(value) in _EXACT and not _overriding_modes():
        return _is_dense(value)  # the usual case, without a context to enter
    if not isinstance(value, _Tensor) or _dispatch_of(type(value)) is not _plain_dispatch or _is_lazy(value):
        return False
    with _torch_c.DisableTorchFunction():
        return _is_dense(value)


def _is_dense(value: Any) -> bool:
    if _is_wrapped(value) or value.layout is not torch.strided or not _has_storage(value):
        return False
    return not (value.is_nested or value.is_quantized or value._is_zerotensor())


def is_readable(value: Any) -> bool:
    """Say whether the values of a tensor can be read."""
    return is_plain(value) and not value.is_meta


def storage_of(tensor: torch.Tensor) -> Any:
    """Return the storage that holds a tensor's values; None where there is none of its own."""
    if type(tensor) not in _EXACT and not is_plain(tensor):
        return None
    try:
        return tensor.untyped_storage()
    except (NotImplementedError, RuntimeError):  # on the path of every operation, so that it is not asked before
        return None


def address_of(tensor: Any) -> int:
    """Return what tells the memory under a tensor from all other; 0 where there is none of its own."""
    if type(tensor) not in _EXACT and not is_plain(tensor):
        return 0
    try:
        return tensor.untyped_storage()._cdata
    except (NotImplementedError, RuntimeError):
        return 0


def share_storage(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Say whether two tensors are views of the same memory."""
    return address_of(one) == address_of(other) != 0


def extremes(tensor: torch.Tensor) -> tuple[Any, Any] | None:
    """Return the least and the greatest value (NaN if there is one), for one wait of the host; None of no values."""
    if not is_readable(tensor) or tensor.numel() == 0 or tensor.is_complex():
        return None
    with quietly():
        values = at_hand(tensor)
        values = values.byte() if values.dtype is torch.bool else values
        both: Any = torch.stack(torch.aminmax(values))
        low, high = both.tolist()
    return low, high


def at_hand(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor over the same memory that is read without a kernel and a wait of the simulated device."""
    sim: Any = sys.modules.get("drygrad.worker.devices.sim.relabel")
    return sim.to_host(tensor) if sim is not None and sim.STATE.enabled and tensor.is_cuda else tensor


def size_text(shape: Any) -> str:
    """Write sizes as ``[8, 10]``."""
    return str(list(shape))


def dtype_text(dtype: torch.dtype) -> str:
    """Write a dtype as ``float32``."""
    return str(dtype).removeprefix("torch.") if hasattr(str, "removeprefix") else str(dtype).split(".")[-1]


def device_text(device: torch.device) -> str:
    """Write a device as in ``on the CPU`` and ``on cuda:0``."""
    return "the CPU" if device.type == "cpu" else str(device)


def bytes_text(count: float) -> str:
    """Write a number of bytes with its unit: ``18.0 MiB``."""
    for unit in ("bytes", "KiB", "MiB"):
        if abs(count) < 1024:
            return f"{count:.0f} bytes" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"
