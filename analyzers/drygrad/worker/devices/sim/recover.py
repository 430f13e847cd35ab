"""Operators that a GPU has in half precision and the host has not: computed in float32 and rounded."""

from __future__ import annotations

import re
from typing import Any

import torch
from torch import Tensor

from drygrad.worker.devices.sim.errors import Unsupported
from drygrad.worker.devices.sim.internals import SEQUENCES
from drygrad.worker.devices.sim.plans import Plan

MISSING = re.compile(r"not implemented for '(?:Half|BFloat16|ComplexHalf)'")
HOST_MEMORY = "can't allocate memory"
WIDER = {torch.float16: torch.float32, torch.bfloat16: torch.float32, torch.complex32: torch.complex64}


def recovered(error: RuntimeError, plan: Plan, host: list[Any], named: dict[str, Any]) -> Any:
    """The result that the host's kernel could not give, or the error again where a GPU would raise it too."""
    text = str(error)
    if HOST_MEMORY in text:
        raise Unsupported("the host has not the memory that the simulated device would need") from error
    if plan.written or not MISSING.search(text):
        raise error
    met: list[torch.dtype] = []
    result = plan.run(*[_wide(value, met) for value in host], **{k: _wide(v, met) for k, v in named.items()})
    return _narrow(result, met[0] if met else torch.float16)


def _wide(value: Any, met: list[torch.dtype]) -> Any:
    if isinstance(value, Tensor) and value.dtype in WIDER:
        met.append(value.dtype)
        return value.to(WIDER[value.dtype])
    if isinstance(value, SEQUENCES):
        return [_wide(item, met) for item in value]
    return WIDER.get(value, value) if isinstance(value, torch.dtype) else value


def _narrow(value: Any, dtype: torch.dtype) -> Any:
    if isinstance(value, Tensor):
        return value.to(dtype) if value.dtype is WIDER[dtype] else value
    if isinstance(value, SEQUENCES):
        return tuple(_narrow(item, dtype) for item in value)
    return value
