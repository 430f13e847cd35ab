"""Half precision where the host's kernels take many times as long as those of single precision."""

from __future__ import annotations

from typing import Any, Callable

import torch
from torch import Tensor

from drygrad.worker.devices.sim.internals import SEQUENCES, overload

PRODUCTS = ("mm", "addmm", "bmm", "baddbmm")


def kernels() -> dict[str, Callable[..., Any]]:
    """Return what the host is to run for some operators, by their names."""
    names = ("convolution_backward", *(() if _host_has_instructions() else PRODUCTS))
    return {name: in_single_precision(overload(name)) for name in names}


def in_single_precision(compute: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that computes float16 in float32 and rounds the results; several dtypes are refused as ever."""

    def run(*args: Any, **kwargs: Any) -> Any:
        if any(isinstance(value, Tensor) and value.dtype is not torch.float16 for value in args):
            return compute(*args, **kwargs)
        wide = (value.float() if isinstance(value, Tensor) else value for value in args)
        return _rounded(compute(*wide, **kwargs))

    return run


def _rounded(result: Any) -> Any:
    if isinstance(result, Tensor):
        return result.half() if result.dtype is torch.float32 else result
    return tuple(map(_rounded, result)) if isinstance(result, SEQUENCES) else result


def _host_has_instructions() -> bool:
    supported: Any = getattr(torch.ops.mkldnn, "_is_mkldnn_fp16_supported", None)
    return supported is not None and bool(supported())
