"""Torch's CUDA hooks, made to say that a device is there.

``at::detail::getCUDAHooks()`` returns one heap object. It is given a copy of its virtual table in which a few methods
are ours; the places of the methods are read from the headers that come with torch, never assumed.
"""

from __future__ import annotations

import ctypes
from typing import Any, Callable

import torch

from drygrad.worker.devices.sim.internals import DESTRUCTORS, C, always, shared_library, virtual
from drygrad.worker.devices.sim.state import PINNED, STATE

PREAMBLE = 2  # offset to top and type information, before the address that objects point to
_FOLDER = "ATen", "detail"
_kept: list[Any] = []


def methods() -> dict[str, int]:
    """Entry in the virtual table of each method of ``CUDAHooksInterface``, by name."""
    names = [name for name in virtual(*_FOLDER, "AcceleratorHooksInterface.h") if "Hooks" not in name]
    names += virtual(*_FOLDER, "CUDAHooksInterface.h")
    methods = (name for name in names if not name.startswith("~"))
    return {name: place for place, name in enumerate(methods, DESTRUCTORS)}


def install() -> None:
    """Replace the methods; raises, and leaves the hooks as they were, where their layout is not the one expected."""
    places = methods()
    if places.get("isBuilt") != DESTRUCTORS or places.get("hasCUDA", 0) <= places.get("getNewGenerator", 1 << 20):
        raise RuntimeError("the layout of torch's CUDA hooks is not the one expected")
    library = ctypes.CDLL(shared_library("torch_cpu"))
    get = library["_ZN2at6detail12getCUDAHooksEv"]
    get.restype = ctypes.c_void_p
    pointer = ctypes.c_void_p.from_address(get())
    old = pointer.value or 0
    size = PREAMBLE + DESTRUCTORS + len(places)
    word = ctypes.sizeof(ctypes.c_void_p)
    table = (ctypes.c_void_p * size).from_buffer_copy((ctypes.c_void_p * size).from_address(old - PREAMBLE * word))
    for name, method in _replacements().items():
        if name in places:
            table[PREAMBLE + places[name]] = ctypes.cast(method, ctypes.c_void_p).value
            _kept.append(method)
    _kept.extend([table, library])
    pointer.value = ctypes.addressof(table) + PREAMBLE * word
    if C._accelerator_getAccelerator() != torch.device("cuda"):
        pointer.value = old
        raise RuntimeError("torch does not take the simulated device for its accelerator")


def _replacements() -> dict[str, Any]:
    this, truth = ctypes.c_void_p, ctypes.c_bool
    replaced: dict[str, Any] = {
        "hasPrimaryContext": ctypes.CFUNCTYPE(truth, this, ctypes.c_int8)(always(True)),
        "init": ctypes.CFUNCTYPE(None, this)(always(None)),
        "deviceCount": ctypes.CFUNCTYPE(ctypes.c_int8, this)(_devices),
        "getNumGPUs": ctypes.CFUNCTYPE(ctypes.c_int, this)(_devices),
        "current_device": ctypes.CFUNCTYPE(ctypes.c_int8, this)(_current),
        "getCurrentDevice": ctypes.CFUNCTYPE(ctypes.c_int8, this)(_current),
        "isPinnedPtr": ctypes.CFUNCTYPE(truth, this, this)(_is_pinned),
        "getPinnedMemoryAllocator": ctypes.CFUNCTYPE(ctypes.c_void_p, this)(_host_allocator()),
        "getDefaultGenerator": ctypes.CFUNCTYPE(ctypes.c_void_p, this, ctypes.c_int8)(_default_generator),
    }
    # Where torch has its CUDA library, it must not take the ways that lead to it.
    absent = ("hasCuDNN", "compiledWithCuDNN", "hasMAGMA", "hasCuSOLVER", "hasCuBLASLt", "hasROCM")
    for names, answer in ((("isBuilt", "isAvailable", "hasCUDA"), True), (absent, False)):
        for name in names:
            replaced[name] = ctypes.CFUNCTYPE(truth, this)(always(answer))
    return replaced


def _devices(_: int) -> int:
    return STATE.devices


def _current(_: int) -> int:
    return STATE.current


def _is_pinned(_: int, address: int) -> bool:
    return address in PINNED


def _host_allocator() -> Callable[..., Any]:
    library = ctypes.CDLL(shared_library("c10"))
    get = library["_ZN3c1015GetCPUAllocatorEv"]
    get.restype = ctypes.c_void_p
    _kept.append(library)
    return always(get())


def _default_generator(_: int, __: int) -> int:
    """Address of the ``at::Generator`` within the Python object of the host's generator, which the device shares."""
    return id(torch.default_generator) + object.__basicsize__
