"""Convolutions, with the checks that cuDNN's side of torch makes."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from drygrad.worker.devices.sim.dtypes import check_convolution
from drygrad.worker.devices.sim.internals import HOST_KEYS, aten
from drygrad.worker.devices.sim.relabel import to_device, to_host
from drygrad.worker.devices.sim.special.half import in_single_precision

_compute = in_single_precision(aten.convolution.default)


def convolution(input: Tensor, weight: Tensor, bias: Tensor | None, *rest: Any) -> Tensor:
    """``aten::convolution``; the host's kernel says it itself where the input is the host's."""
    if not input.is_cuda:
        return aten.convolution.default.redispatch(HOST_KEYS, input, weight, bias, *rest)
    for name, tensor in (("weight", weight), ("bias", bias)):
        if tensor is not None and (tensor.device != input.device or tensor.dtype != input.dtype):
            raise RuntimeError(f"Input type ({input.type()}) and {name} type ({tensor.type()}) should be the same")
    check_convolution(input)
    host_bias = None if bias is None else to_host(bias)
    result = _compute(to_host(input), to_host(weight), host_bias, *rest)
    return to_device(result, input.get_device())
