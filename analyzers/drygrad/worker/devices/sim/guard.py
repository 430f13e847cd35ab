"""A device guard for CUDA where no CUDA runtime is: torch's own fake one, switched on.

``torch._C._ensureCUDADeviceGuardSet`` replaces a registered guard that counts no device by ``FakeGuardImpl``, but does
nothing where none is registered, as in a torch without CUDA. So a stub whose every method answers 0 comes first.
Where torch has CUDA and there is a GPU, the GPU is hidden before the CUDA runtime counts it.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from drygrad.worker.devices.sim.internals import C, always, shared_library

CUDA = 1  # c10::DeviceType
METHODS = 64  # more than DeviceGuardImplInterface has
_kept: list[Any] = []


def available() -> bool:
    """Whether this torch can install its fake guard."""
    return hasattr(C, "_ensureCUDADeviceGuardSet")


def install() -> None:
    """Register the guard; raises where torch does not export its registry."""
    library = ctypes.CDLL(shared_library("c10"))
    registry = (ctypes.c_void_p * (CUDA + 1)).in_dll(library, "_ZN3c104impl26device_guard_impl_registryE")
    before = registry[CUDA]
    if before is None:
        registry[CUDA] = _stub()
    registered = registry[CUDA]
    with _no_real_device():
        C._ensureCUDADeviceGuardSet()
    if registry[CUDA] == registered:
        registry[CUDA] = before
        raise RuntimeError("torch did not take its fake CUDA guard: it has counted a real device already")


@contextmanager
def _no_real_device() -> Generator[None, None, None]:
    """Hide real devices from the CUDA runtime, which looks once, at the first question."""
    before = os.environ.get("CUDA_VISIBLE_DEVICES")
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    try:
        yield
    finally:
        if before is None:
            del os.environ["CUDA_VISIBLE_DEVICES"]
        else:
            os.environ["CUDA_VISIBLE_DEVICES"] = before


def _stub() -> int:
    zero = ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_void_p)(always(0))
    table = (ctypes.c_void_p * METHODS)(*[ctypes.cast(zero, ctypes.c_void_p).value] * METHODS)
    instance = (ctypes.c_void_p * 1)(ctypes.addressof(table))
    _kept.extend([zero, table, instance])
    return ctypes.addressof(instance)
