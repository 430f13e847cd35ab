"""A device guard for CUDA where no CUDA runtime is: torch's own fake one, switched on.

``torch._C._ensureCUDADeviceGuardSet`` replaces a registered guard that counts no device by ``FakeGuardImpl``, but does
nothing where none is registered, as in a torch without CUDA, or where one counts a real GPU. So a stub whose every
method answers 0 comes first.

The first backward of a process starts a thread for each device that the guard counts, and a process that has such
threads cannot go backward behind a fork. One that is to be forked counts none as long as it uses none; what is forked
from it behind that backward starts them itself, and so does it when it comes to use a device after all.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any

from drygrad.worker.devices.sim import memory
from drygrad.worker.devices.sim.internals import DESTRUCTORS, C, always, shared_library, virtual

CUDA = 1  # c10::DeviceType
METHODS = 64  # more than DeviceGuardImplInterface has
_HEADER = "c10", "core", "impl", "DeviceGuardImplInterface.h"
_ENGINE = "_ZN5torch8autograd6Engine"
_kept: list[Any] = []


class _Forked:
    """The process that is to be forked after it has gone backward, and whether it has gone backward with no threads."""

    process = 0
    without_threads = False


def available() -> bool:
    """Whether this torch can install its fake guard."""
    return hasattr(C, "_ensureCUDADeviceGuardSet")


def install() -> None:
    """Register the guard; raises where torch does not export its registry."""
    library = ctypes.CDLL(shared_library("c10"))
    registry = (ctypes.c_void_p * (CUDA + 1)).in_dll(library, "_ZN3c104impl26device_guard_impl_registryE")
    before, stub = registry[CUDA], _stub()
    registry[CUDA] = stub
    C._ensureCUDADeviceGuardSet()
    if registry[CUDA] == stub:
        registry[CUDA] = before
        raise RuntimeError("torch did not take its fake CUDA guard")
    _count(registry[CUDA])


def stay_forkable() -> None:
    """Let forks of this process go backward, whatever it has done before, but use a device."""
    library = ctypes.CDLL(shared_library("torch_cpu"))
    engine = getattr(library, _ENGINE + "18get_default_engineEv", None)
    start = getattr(library, _ENGINE + "20start_device_threadsEv", None)
    if engine is None or start is None:
        return
    engine.restype = ctypes.c_void_p

    def begin() -> None:
        if _Forked.without_threads:
            _Forked.without_threads = False
            start(ctypes.c_void_p(engine()))

    os.register_at_fork(after_in_child=begin)
    memory.on_first_use.append(begin)
    _Forked.process = os.getpid()


def _count(guard: int) -> None:
    """Give the guard a copy of its virtual table, in which the count of devices is ours."""
    places = virtual(*_HEADER)
    if not places[-1].startswith("~"):
        raise RuntimeError("the layout of torch's device guard is not the one expected")
    size = len(places) - 1 + DESTRUCTORS
    pointer = ctypes.c_void_p.from_address(guard)
    table = (ctypes.c_void_p * size).from_buffer_copy((ctypes.c_void_p * size).from_address(pointer.value or 0))
    kind = ctypes.CFUNCTYPE(ctypes.c_int8, ctypes.c_void_p)
    place = places.index("deviceCount")
    counted = kind(table[place] or 0)

    def count(this: int) -> int:
        if os.getpid() != _Forked.process or memory.is_used():
            return counted(this)
        _Forked.without_threads = True
        return 0

    ours = kind(count)
    table[place] = ctypes.cast(ours, ctypes.c_void_p).value
    _kept.extend([table, counted, ours])
    pointer.value = ctypes.addressof(table)


def _stub() -> int:
    zero = ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_void_p)(always(0))
    table = (ctypes.c_void_p * METHODS)(*[ctypes.cast(zero, ctypes.c_void_p).value] * METHODS)
    instance = (ctypes.c_void_p * 1)(ctypes.addressof(table))
    _kept.extend([zero, table, instance])
    return ctypes.addressof(instance)
