"""Operators that a GPU has in a dtype and the host has not, half precision mostly: computed in float32 and rounded."""

from __future__ import annotations

import re
from typing import Any

import torch
from torch import Tensor

from drygrad.worker.devices.sim import memory
from drygrad.worker.devices.sim.dtypes import FULL_PRECISION, INTEGERS, in_words_of_cuda
from drygrad.worker.devices.sim.errors import Unsupported
from drygrad.worker.devices.sim.internals import HOST, SEQUENCES
from drygrad.worker.devices.sim.plans import Plan, argument
from drygrad.worker.devices.sim.state import STATE

# The words of ATen's dispatch over dtypes, and of MKL: every other refusal is a check that a GPU makes too.
MISSING = re.compile(r"not implemented for '(?:Half|BFloat16|ComplexHalf)'|MKL FFT doesn't support tensors of type")
BY_ZERO = "ZeroDivisionError"
SOFTMAX = re.compile(r"aten::_(?:log_)?softmax(_backward_data)?$")
"""A GPU's kernels go from half to single precision and back by themselves; so autocast calls them."""
Dtypes = dict[torch.dtype, torch.dtype]
HOST_MEMORY = re.compile(r"can't allocate memory(?:.* (\d+) bytes)?", re.S)
WIDER = {torch.float16: torch.float32, torch.bfloat16: torch.float32, torch.complex32: torch.complex64}
OF_INTEGERS = {"aten::histc": dict.fromkeys(INTEGERS, torch.float32)}
"""Operators that a GPU has for integers, and the host has not."""


def recovered(error: RuntimeError, plan: Plan, host: list[Any], named: dict[str, Any]) -> Any:
    """The result that the host's kernel could not give, or the error again where a GPU would raise it too."""
    text = str(error)
    wanted = HOST_MEMORY.search(text)
    if wanted is not None:
        memory.require(int(wanted[1] or 0), STATE.current)
        raise Unsupported("the host does not have the memory that the simulated device needs") from error
    if text == BY_ZERO:
        return _divided(plan, host, named)
    softmax = SOFTMAX.match(plan.name)
    if softmax is not None and host[-1] not in (False, host[0].dtype):
        return _softmax_from_half(plan, host, backward=bool(softmax[1]))
    wider = OF_INTEGERS.get(plan.name) or (WIDER if MISSING.search(text) else {})
    if not wider or FULL_PRECISION.match(plan.name):
        raise in_words_of_cuda(error, plan.name)
    narrower: Dtypes = {torch.complex64: torch.complex32, torch.float32: torch.float16}
    wide = [_wide(value, wider, narrower) for value in host]
    wide_named = {name: _wide(value, wider, narrower) for name, value in named.items()}
    result = plan.run(*wide, **wide_named)
    for where in plan.written:
        target, source = argument(where, host, named), argument(where, wide, wide_named)
        if isinstance(target, Tensor):
            target.copy_(source)
    return _narrow(result, narrower)


def _divided(plan: Plan, host: list[Any], named: dict[str, Any]) -> Any:
    """An integer division by zero, which a GPU answers with all bits set; a host refuses it."""
    divisor = host[1] if isinstance(host[1], Tensor) else torch.tensor(host[1], device=HOST)
    zero = divisor == 0
    host[1] = divisor.masked_fill(zero, 1)
    return plan.run(*host, **named).masked_fill_(zero, -1)


def _softmax_from_half(plan: Plan, host: list[Any], *, backward: bool) -> Tensor:
    if backward:
        grad, output, dim, dtype = host
        return plan.run(grad, output, dim, grad.dtype).to(dtype)
    return plan.run(host[0].float(), host[1], False)


def _wide(value: Any, wider: Dtypes, narrower: Dtypes) -> Any:
    """A value in wider dtypes; notes the way back."""
    if isinstance(value, Tensor) and value.dtype in wider:
        narrower[wider[value.dtype]] = value.dtype
        return value.to(wider[value.dtype])
    if isinstance(value, SEQUENCES):
        return [_wide(item, wider, narrower) for item in value]
    if isinstance(value, torch.dtype) and value in wider:
        narrower.setdefault(wider[value], value)
        return wider[value]
    return value


def _narrow(value: Any, narrower: Dtypes) -> Any:
    if isinstance(value, Tensor):
        return value.to(narrower.get(value.dtype, value.dtype))
    if isinstance(value, SEQUENCES):
        return tuple(_narrow(item, narrower) for item in value)
    return value
