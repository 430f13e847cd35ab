"""The GPU that a forecast is for, and what a process takes of it beside its tensors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from drygrad.worker.forecast.events import BACKWARD, RECOMPUTE

_MIB = 1 << 20
_CONTEXT_OF_MULTIPROCESSOR = 3 * _MIB
"""What the driver sets aside grows with the chip: 107 MiB of 34 multiprocessors (RTX 4060 Ti), 256 of 82 (RTX 3090),
426 of 142 (RTX 6000 Ada), 555 of 188 (RTX PRO 6000), as told in llama.cpp#23604, InvokeAI#9413 and unsloth-zoo#1053."""
_KERNELS = 100 * _MIB
"""The code of torch, cuBLAS and cuDNN that a training step loads; an assumption: it is loaded as it is used."""
_CONTEXT_OF_UNKNOWN = 500 * _MIB
_LARGE_WORKSPACE = 32 * _MIB
_WORKSPACE = 2 * 4096 * 1024 + 8 * 16 * 1024
_LT_WORKSPACE = 1024 * 1024
_NCCL_CHANNELS, _NCCL_BUFFER = 16, 4 * _MIB
_PRODUCTS = re.compile(r"aten::(addmm|mm|bmm|baddbmm|addbmm|linear|addmv|mv|dot|_addmm_activation|_scaled_mm)")


class Gpu(NamedTuple):
    """What a GPU has, and can do at best; see ``drygrad.gpus``."""

    name: str
    memory: int
    arch: str = ""
    multiprocessors: int = 0
    bandwidth: float = 0.0
    rates: Mapping[str, float] = {}

    @classmethod
    def of(cls, wire: Mapping[str, Any]) -> Gpu:
        """Return what was sent."""
        return cls(**{name: wire[name] for name in cls._fields if name in wire})

    @property
    def context(self) -> int:
        """What a process takes before its first tensor, outside of torch's allocator: an assumption."""
        if not self.multiprocessors:
            return _CONTEXT_OF_UNKNOWN
        return self.multiprocessors * _CONTEXT_OF_MULTIPROCESSOR + _KERNELS

    @property
    def capability(self) -> tuple[int, int]:
        """Major and minor of its architecture; zeros where that is unknown."""
        found = re.fullmatch(r"sm_(\d+)(\d)", self.arch)
        return (int(found[1]), int(found[2])) if found else (0, 0)


def nccl_bytes(environment: Mapping[str, str]) -> int:
    """Return what one communicator of NCCL takes, outside of torch's allocator: an assumption.

    A ring has a buffer (``NCCL_BUFFSIZE``) to either side, for each of the channels that NCCL opens.
    """
    size = environment.get("NCCL_BUFFSIZE", "")
    channels = environment.get("NCCL_MAX_NCHANNELS", environment.get("NCCL_MAX_CTAS", ""))
    buffer = int(size) if size.isdigit() else _NCCL_BUFFER
    return 2 * buffer * (int(channels) if channels.isdigit() else _NCCL_CHANNELS)


class Workspaces:
    """The scratch memory that products of matrices keep: one for each thread that calls cuBLAS.

    Backward has a thread of its own, so a training step has two. Torch takes them from its allocator, at first use, for
    good (``aten/src/ATen/cuda/CublasHandlePool.cpp``).
    """

    def __init__(self, gpu: Gpu, environment: Mapping[str, str]) -> None:
        self._size = workspace_bytes(gpu, environment)
        self._taken: set[tuple[int, bool]] = set()

    def taken_by(self, operation: str, phase: str, device: int = 0) -> int:
        """Return how many bytes an operation takes for good before it runs; 0 for most."""
        key = (device, phase in (BACKWARD, RECOMPUTE))
        if key in self._taken or not _PRODUCTS.fullmatch(operation.split(".", 1)[0]):
            return 0
        self._taken.add(key)
        return self._size


def workspace_bytes(gpu: Gpu, environment: Mapping[str, str]) -> int:
    """Return the size of cuBLAS's workspace: 32 MiB on Hopper and Blackwell, 8.125 MiB else, unless it is set."""
    found = re.findall(r":(\d+):(\d+)", environment.get("CUBLAS_WORKSPACE_CONFIG", ""))
    if found:
        return sum(int(size) * int(count) * 1024 for size, count in cast("list[tuple[str, str]]", found))
    if gpu.arch.startswith("gfx9"):
        return 4 * _LARGE_WORKSPACE if gpu.arch.startswith(("gfx94", "gfx95")) else _LARGE_WORKSPACE
    return _LARGE_WORKSPACE if gpu.capability[0] in (9, 10, 12) else _WORKSPACE


def lt_workspace_bytes(gpu: Gpu, environment: Mapping[str, str], torch: tuple[int, ...]) -> int:
    """Return what cuBLASLt takes beside: nothing since it shares cuBLAS's (torch 2.7), else 1 MiB, while it runs."""
    shared = torch >= (2, 7) and environment.get("TORCH_CUBLASLT_UNIFIED_WORKSPACE", "1") not in ("0", "false", "False")
    if shared:
        return 0
    size = environment.get("CUBLASLT_WORKSPACE_SIZE", "")
    return int(size) * 1024 if size.isdigit() else _LT_WORKSPACE
