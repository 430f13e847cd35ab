"""Linear layers whose products are of 8-bit floating point numbers, as torchao computes them with ``_scaled_mm``.

Parameters, activations and gradients stay as they are. Each factor has one scale, by its largest absolute value, and is
cast where it is used; casts are taken to be one kernel, which reads a tensor and writes its 8-bit copy.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from contextlib import ExitStack
from typing import Any, ClassVar, cast

import torch

from drygrad.worker.forecast.changes.change import Change, replaced

_DTYPES = {
    "fn": ("float8_e4m3fn", "float8_e5m2"),
    "fnuz": ("float8_e4m3fnuz", "float8_e5m2fnuz"),
}
_MULTIPLE = 16
"""What tensor cores want sizes of 8-bit factors to be multiples of."""
_linear: Any = torch.nn.Linear
_torch: Any = torch


class Float8(Change):
    """Linear layers multiply in float8; the argument says in which variant of the dtype."""

    word: ClassVar[str] = "float8"

    def enter(self, left: ExitStack) -> None:
        """Compute plain linear layers otherwise; classes derived from them have ways of their own."""
        dtypes = tuple(getattr(torch, name) for name in _DTYPES[self.argument or "fn"])
        own = _linear.forward

        def forward(layer: Any, given: Any) -> Any:
            if type(layer) is not _linear or not _suits(layer.weight, given):
                return own(layer, given)
            self.touched += 1
            device = given.device.type
            if torch.is_autocast_enabled(device):
                given = given.to(torch.get_autocast_dtype(device))
            weight = layer.weight.to(given.dtype)
            flat: Any = _product(given.reshape(-1, given.shape[-1]), weight, dtypes)
            made: Any = flat.reshape(*given.shape[:-1], flat.shape[-1])
            return made if layer.bias is None else made + layer.bias.to(made.dtype)

        replaced(left, _linear, "forward", forward)


def _suits(weight: Any, given: Any) -> bool:
    rows = given.numel() // max(given.shape[-1], 1)
    return given.is_floating_point() and not any(size % _MULTIPLE for size in (rows, *weight.shape))


class _Product(torch.autograd.Function):
    """``given @ weight.T`` with its gradients; what is kept for backward are the factors before they were cast."""

    @staticmethod
    def forward(ctx: Any, given: Any, weight: Any, dtypes: Any) -> Any:
        ctx.save_for_backward(given, weight)
        ctx.dtypes = dtypes
        return _multiplied(given, weight, dtypes[0], dtypes[0])

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (gradient,) = gradients
        given, weight = ctx.saved_tensors
        narrow, wide = ctx.dtypes
        of_given = _multiplied(gradient, weight.t(), wide, narrow) if ctx.needs_input_grad[0] else None
        of_weight = _multiplied(gradient.t(), given.t(), wide, narrow) if ctx.needs_input_grad[1] else None
        return of_given, of_weight, None


_product = cast("Any", _Product).apply


def _multiplied(first: Any, second: Any, of_first: Any, of_second: Any) -> Any:
    """Return ``first @ second.T``: the layout in which tensor cores take both."""
    left, scale = _cast(first, of_first)
    right, other = _cast(second, of_second)
    return _torch._scaled_mm(left, right.t(), scale_a=scale, scale_b=other, out_dtype=first.dtype)


def _cast(tensor: Any, dtype: Any) -> tuple[Any, Any]:
    """Return a tensor in 8 bits, row by row in memory, and the number that its values are multiplied by to be right."""
    largest = _torch.linalg.vector_norm(tensor.detach(), float("inf"), dtype=torch.float32)
    scale = largest.clamp(min=1e-12) / torch.finfo(dtype).max
    made = torch.empty(tensor.shape, dtype=dtype, device=tensor.device)
    torch.div(tensor.detach(), scale.to(tensor.dtype), out=made)
    return made, scale
