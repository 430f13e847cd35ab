"""The memory figures of ``torch.cuda.memory`` and ``torch.accelerator.memory``."""

from __future__ import annotations

from typing import Any

import torch

from drygrad.worker.devices.sim import memory
from drygrad.worker.devices.sim.internals import C, always
from drygrad.worker.devices.sim.state import STATE, report_sync

SEGMENT = 2 << 20  # bytes: the caching allocator asks the driver for at least this
_cuda: Any = torch.cuda


def patch() -> None:
    """Let torch's Python functions read our figures."""
    functions: dict[str, Any] = {
        "_cuda_memoryStats": statistics,
        "_cuda_resetPeakMemoryStats": memory.reset_peak,
        "_cuda_resetAccumulatedMemoryStats": always(None),
        "_cuda_emptyCache": _empty_cache,
        "_cuda_setMemoryFraction": always(None),
        "_cuda_getAllocatorBackend": always("native"),
        "_cuda_record_memory_history": always(None),
        "_cuda_record_memory_history_legacy": always(None),
        "_cuda_memorySnapshot": always({"segments": [], "device_traces": []}),
        "_accelerator_getDeviceStats": statistics,
        "_accelerator_resetPeakStats": memory.reset_peak,
        "_accelerator_resetAccumulatedStats": always(None),
        "_accelerator_emptyCache": _empty_cache,
        "_accelerator_getMemoryInfo": free_and_total,
        "_accelerator_isAllocatorInitialized": always(True),
    }
    for name, function in functions.items():
        setattr(C, name, function)
    for module in (_cuda, _cuda.memory):
        module.mem_get_info = _mem_get_info


def _empty_cache() -> None:
    """Free nothing, for nothing is cached; the driver would wait for the device before it frees memory."""
    report_sync("sync", "torch.cuda.empty_cache")


def free_and_total(index: int) -> tuple[int, int]:
    """Free and total bytes of a device."""
    return STATE.total_memory - _reserved(memory.allocated(index)), STATE.total_memory


def _mem_get_info(device: Any = None) -> tuple[int, int]:
    return free_and_total(_cuda._utils._get_device_index(device, optional=True))


def _reserved(size: int) -> int:
    return -(-size // SEGMENT) * SEGMENT


def statistics(index: int) -> dict[str, Any]:
    """The nested dictionary behind ``torch.cuda.memory_stats``; sizes in bytes."""
    usage = memory.usage(index)
    size = _pools(usage.allocated, usage.peak, usage.total, usage.total - usage.allocated)
    reserved = _pools(_reserved(usage.allocated), _reserved(usage.peak), usage.total, usage.total - usage.allocated)
    count = _pools(usage.allocations - usage.frees, usage.most, usage.allocations, usage.frees)
    nothing = _pools(0, 0, 0, 0)
    return {
        "allocation": count,
        "active": count,
        "segment": count,
        "inactive_split": nothing,
        "allocated_bytes": size,
        "active_bytes": size,
        "requested_bytes": size,
        "reserved_bytes": reserved,
        "inactive_split_bytes": nothing,
        "oversize_allocations": nothing["all"],
        "oversize_segments": nothing["all"],
        "num_alloc_retries": 0,
        "num_ooms": 0,
        "num_sync_all_streams": 0,
        "num_device_alloc": usage.allocations,
        "num_device_free": usage.frees,
        "max_split_size": -1,
    }


def _pools(current: int, peak: int, allocated: int, freed: int) -> dict[str, dict[str, int]]:
    whole = {"current": current, "peak": peak, "allocated": allocated, "freed": freed}
    return {"all": whole, "small_pool": dict.fromkeys(whole, 0), "large_pool": whole}
