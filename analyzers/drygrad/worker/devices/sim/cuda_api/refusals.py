"""What the simulated device does without: compiled code is run as it is written, the rest is refused."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Callable

import torch

from drygrad.worker.devices.sim.cuda_api.late import after_import
from drygrad.worker.devices.sim.errors import Unsupported
from drygrad.worker.devices.sim.internals import C, always
from drygrad.worker.devices.sim.state import NOTES

COMPILED = "torch.compile had no effect; on the simulated device the function runs eagerly"


def refusing(what: str) -> Callable[..., Any]:
    """A function that says that the simulated device has no such thing."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise Unsupported(f"the simulated device has no {what}")

    return refuse


def patch() -> None:
    """Replace what would need a real GPU."""
    cuda: Any = torch.cuda
    for name in ("CUDAGraph", "graph", "make_graphed_callables"):
        for module in (cuda, cuda.graphs):
            setattr(module, name, _refused_class(name))
    cuda.nvtx._nvtx = SimpleNamespace(
        rangePushA=always(0),
        rangePop=always(0),
        rangeStartA=always(0),
        rangeEnd=always(None),
        markA=always(None),
    )
    C._scatter = _scatter
    for name in ("_gather", "_broadcast", "_broadcast_coalesced", "_broadcast_out", "_scatter_out", "_gather_out"):
        setattr(C, name, refusing("communication between devices"))
    C._cuda_jiterator_compile_and_launch_kernel = refusing("compiler for kernels")
    after_import("torch.utils.cpp_extension", _refuse_extensions)
    after_import("triton.runtime.jit", _refuse_triton)
    cuda.cudart = refusing("CUDA runtime library")
    module: Any = torch
    module.compile = compile_nothing
    torch.nn.Module.compile = _compile_module


def _refused_class(name: str) -> type:
    def refuse(*_: Any, **__: Any) -> Any:
        raise Unsupported(f"the simulated device has no CUDA graphs (torch.cuda.{name})")

    return type(name, (), {"__new__": refuse})


def compile_nothing(model: Any = None, **options: Any) -> Any:
    """``torch.compile``: returns what it is given, or a decorator that does."""
    if COMPILED not in NOTES:
        NOTES.append(COMPILED)
    return compile_nothing if model is None else model


def _compile_module(self: torch.nn.Module, *_: Any, **__: Any) -> None:
    compile_nothing(self)


def _refuse_extensions(module: Any) -> None:
    module.load = module.load_inline = refusing("compiler for extensions")


def _refuse_triton(module: Any) -> None:
    module.JITFunction.run = refusing("Triton kernels")


def _scatter(tensor: torch.Tensor, devices: Any, chunk_sizes: Any = None, dim: int = 0, streams: Any = None) -> Any:
    if len(devices) != 1:
        raise Unsupported("the simulated device has no communication between devices")
    return (tensor.to(torch.device("cuda", devices[0])),)
