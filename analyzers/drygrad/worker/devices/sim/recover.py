"""Operators that a GPU has in half precision and the host has not: computed in float32 and rounded."""

from __future__ import annotations

import re
from typing import Any

import torch
from torch import Tensor

from drygrad.worker.devices.sim import memory
from drygrad.worker.devices.sim.dtypes import FULL_PRECISION, in_words_of_cuda
from drygrad.worker.devices.sim.errors import Unsupported
from drygrad.worker.devices.sim.internals import SEQUENCES
from drygrad.worker.devices.sim.plans import Plan, argument
from drygrad.worker.devices.sim.state import STATE

# The words of ATen's dispatch over dtypes, and of MKL: every other refusal is a check that a GPU makes too.
MISSING = re.compile(r"not implemented for '(?:Half|BFloat16|ComplexHalf)'|MKL FFT doesn't support tensors of type")
HOST_MEMORY = re.compile(r"can't allocate memory(?:.* (\d+) bytes)?", re.S)
WIDER = {torch.float16: torch.float32, torch.bfloat16: torch.float32, torch.complex32: torch.complex64}


def recovered(error: RuntimeError, plan: Plan, host: list[Any], named: dict[str, Any]) -> Any:
    """The result that the host's kernel could not give, or the error again where a GPU would raise it too."""
    text = str(error)
    wanted = HOST_MEMORY.search(text)
    if wanted is not None:
        memory.require(int(wanted[1] or 0), STATE.current)
        raise Unsupported("the host has not the memory that the simulated device would need") from error
    if not MISSING.search(text) or FULL_PRECISION.match(plan.name):
        raise in_words_of_cuda(error, plan.name)
    met: list[torch.dtype] = []
    wide = [_wide(value, met) for value in host]
    wide_named = {name: _wide(value, met) for name, value in named.items()}
    result = plan.run(*wide, **wide_named)
    for where in plan.written:
        target, source = argument(where, host, named), argument(where, wide, wide_named)
        if isinstance(target, Tensor):
            target.copy_(source)
    return _narrow(result, met[0] if met else torch.float16)


def _wide(value: Any, met: list[torch.dtype]) -> Any:
    if isinstance(value, Tensor) and value.dtype in WIDER:
        met.append(value.dtype)
        return value.to(WIDER[value.dtype])
    if isinstance(value, SEQUENCES):
        return [_wide(item, met) for item in value]
    return WIDER.get(value, value) if isinstance(value, torch.dtype) else value


def _narrow(value: Any, met: torch.dtype) -> Any:
    if isinstance(value, Tensor):
        if value.dtype is torch.complex64:
            return value.to(torch.complex32)
        return (
            value.to(torch.bfloat16 if met is torch.bfloat16 else torch.float16)
            if (value.dtype is torch.float32)
            else value
        )
    if isinstance(value, SEQUENCES):
        return tuple(_narrow(item, met) for item in value)
    return value
