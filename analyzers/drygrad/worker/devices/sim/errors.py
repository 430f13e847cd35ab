"""What the simulated device raises besides torch's own errors."""

from __future__ import annotations

from typing import Any

import torch

ASYNCHRONOUS = (
    "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be "
    "incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1\n"
    "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n"
)


class Unsupported(RuntimeError):
    """A GPU could do this, the simulated one cannot: the run has no answer, and nothing is a fault."""


def invalid_ordinal() -> RuntimeError:
    """The error of a device index that does not exist."""
    kind: Any = getattr(torch, "AcceleratorError", RuntimeError)
    return kind("CUDA error: invalid device ordinal\n" + ASYNCHRONOUS)


def out_of_memory(wanted: int, index: int, total: int, allocated: int) -> RuntimeError:
    """The caching allocator's error for an allocation of ``wanted`` bytes; all figures in bytes."""
    kind: Any = getattr(torch, "OutOfMemoryError", RuntimeError)
    return kind(
        f"CUDA out of memory. Tried to allocate {size(wanted)}. GPU {index} has a total capacity of {size(total)} of "
        f"which {size(max(total - allocated, 0))} is free. Including non-PyTorch memory, this process has "
        f"{size(allocated)} memory in use. Of the allocated memory {size(allocated)} is allocated by PyTorch, and 0 "
        "bytes is reserved by PyTorch but unallocated."
    )


def size(number: int) -> str:
    """Bytes as the caching allocator writes them."""
    if number <= 1024:
        return f"{number} bytes"
    for unit, power in (("KiB", 10), ("MiB", 20)):
        if number <= 1 << (power + 10):
            return f"{number / (1 << power):.2f} {unit}"
    return f"{number / (1 << 30):.2f} GiB"
