"""The functions of ``torch._C`` that know of devices: which there are, which is current."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch

from drygrad.worker.devices.sim.internals import C, always
from drygrad.worker.devices.sim.state import STATE, checked, report_sync

CUDA_VERSION = "12.8"
_CONFIGURATION: str = C._show_config()
"""Once torch believes in the device, it would ask a library of CUDA's for a part of this."""
_cuda: Any = torch.cuda
_version: Any = torch.version


def patch() -> None:
    """Replace them, and the names that torch bound to them when it was imported."""
    functions: dict[str, Any] = {
        "_cuda_getDeviceCount": lambda: STATE.devices,
        "_cuda_getDevice": lambda: STATE.current,
        "_cuda_setDevice": set_device,
        "_cuda_exchangeDevice": exchange_device,
        "_cuda_maybeExchangeDevice": exchange_device,
        "_cuda_getArchFlags": lambda: "sm_{}{}".format(*STATE.capability),
        "_cuda_synchronize": _synchronize,
        "_show_config": always(_CONFIGURATION),
        "_cuda_init": always(None),
        "_cuda_isInBadFork": always(False),
        "_cuda_ipc_collect": always(None),
        "_cuda_get_sync_debug_mode": always(0),
        "_cuda_set_sync_debug_mode": always(None),
        "_cuda_canDeviceAccessPeer": always(True),
        "_accelerator_synchronizeDevice": _synchronize,
        "_accelerator_getDeviceIndex": lambda: STATE.current,
        "_accelerator_setDeviceIndex": _setting(C._accelerator_setDeviceIndex),
    }
    for name, function in functions.items():
        setattr(C, name, function)
    _cuda._exchange_device = _cuda._maybe_exchange_device = exchange_device
    _cuda._is_in_bad_fork = always(False)
    _cuda.is_available = always(True)
    _cuda.device_count = lambda: STATE.devices
    _cuda._get_device_properties = properties
    _cuda.get_device_properties = _checked_properties
    _cuda._initialized = True
    _cuda._lazy_init = always(None)
    torch.backends.cuda.is_built = always(True)
    if not _version.cuda:
        _version.cuda = CUDA_VERSION
    if hasattr(torch, "accelerator"):
        torch.accelerator.device_count = lambda: STATE.devices


def _setting(of_guard: Any) -> Any:
    def set_index(index: int) -> None:
        STATE.current = checked(index)
        of_guard(STATE.current)

    return set_index


def set_device(index: int) -> None:
    """Make a device the current one, for us and for the fake guard."""
    C._accelerator_setDeviceIndex(index)


def exchange_device(index: int) -> int:
    """Make a device the current one, unless it is negative, and return the one before."""
    before = STATE.current
    if index >= 0:
        set_device(index)
    return before


def _synchronize(*_: object) -> None:
    report_sync("sync", "torch.cuda.synchronize")


def _checked_properties(device: Any = None) -> SimpleNamespace:
    index = _cuda._utils._get_device_index(device, optional=True)
    if not 0 <= index < STATE.devices:
        raise AssertionError("Invalid device id")
    return properties(index)


def properties(_: int = 0) -> SimpleNamespace:
    """What ``torch.cuda.get_device_properties`` tells; beyond what ``enable`` was told, an H100's figures."""
    major, minor = STATE.capability
    return SimpleNamespace(
        name=STATE.name,
        major=major,
        minor=minor,
        total_memory=STATE.total_memory,
        multi_processor_count=132,
        warp_size=32,
        is_integrated=0,
        is_multi_gpu_board=0,
        gcnArchName="",
        L2_cache_size=50 << 20,
        max_threads_per_multi_processor=2048,
        max_threads_per_block=1024,
        regs_per_multiprocessor=65536,
        shared_memory_per_block=49152,
        shared_memory_per_block_optin=232448,
        shared_memory_per_multiprocessor=233472,
    )
