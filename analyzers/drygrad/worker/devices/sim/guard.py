"""A device guard for CUDA where no CUDA runtime is: torch's own fake one, switched on.

``torch._C._ensureCUDADeviceGuardSet`` replaces a registered guard that counts no device by ``FakeGuardImpl``, but does
nothing where none is registered, as in a torch without CUDA. So a stub whose every method answers 0 comes first.
"""

from __future__ import annotations

import ctypes
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
    stub = None
    if registry[CUDA] is None:
        stub = registry[CUDA] = _stub()
    C._ensureCUDADeviceGuardSet()
    if stub is not None and registry[CUDA] == stub:
        registry[CUDA] = None
        raise RuntimeError("torch did not replace the stub by its fake CUDA guard")


def _stub() -> int:
    zero = ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_void_p)(always(0))
    table = (ctypes.c_void_p * METHODS)(*[ctypes.cast(zero, ctypes.c_void_p).value] * METHODS)
    instance = (ctypes.c_void_p * 1)(ctypes.addressof(table))
    _kept.extend([zero, table, instance])
    return ctypes.addressof(instance)
