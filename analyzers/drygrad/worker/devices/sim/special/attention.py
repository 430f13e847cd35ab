"""Scaled dot product attention: a GPU chooses other kernels than the host, and other words for what is wrong."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from drygrad.worker.devices.sim import memory
from drygrad.worker.devices.sim.internals import aten
from drygrad.worker.devices.sim.mismatch import two_devices

_FORWARD = "_scaled_dot_product_flash_attention_for_cpu"
_BACKWARD = f"{_FORWARD}_backward"

NOTEWORTHY_WEIGHTS = 1 << 20

CPP_NAMES = {
    torch.float32: "float",
    torch.float64: "double",
    torch.float16: "c10::Half",
    torch.bfloat16: "c10::BFloat16",
    torch.int64: "long int",
    torch.int32: "int",
    torch.bool: "bool",
}


def scaled_dot_product_attention(  # noqa: PLR0913, PLR0917 - the operator's own signature
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """``aten::scaled_dot_product_attention``, by the host's flash kernel where it can, else by its definition.

    The host's flash kernel drops nothing. Where the attention weights are so many that they would count, it serves all
    the same: a GPU never has them in memory. Where nothing is computed, it stands for a GPU's in all of this.
    """
    _validate(query, key, value, attn_mask)
    computes = memory.watcher is None
    drops = dropout_p > 0.0 and query.shape[:-1].numel() * key.shape[-2] < NOTEWORTHY_WEIGHTS
    shares = enable_gqa and query.size(1) != key.size(1)
    if not (computes and (drops or shares)) and _flash(query, key, value, attn_mask, shares=shares):
        if attn_mask is not None and attn_mask.dtype == torch.bool:
            allowed = torch.zeros_like(attn_mask, dtype=query.dtype)
            attn_mask = allowed.masked_fill_(attn_mask.logical_not(), float("-inf"))
        flash = getattr(aten, _FORWARD)
        return flash(query, key, value, 0.0, is_causal, attn_mask=attn_mask, scale=scale)[0]
    math = aten._scaled_dot_product_attention_math
    return math(query, key, value, attn_mask, dropout_p, is_causal, None, scale=scale, enable_gqa=enable_gqa)[0]


def forward(query: Tensor, *args: Any, attn_mask: Tensor | None = None, **kwargs: Any) -> tuple[Tensor, Tensor]:
    """Compute what the host's kernel does, and arrange it as a GPU does: what reshapes it may need a copy then.

    With fewer bits and no mask, a GPU takes the flash kernel, which arranges results and gradients as the inputs are.
    Else it takes another, for which positions come before heads in memory, in results and gradients.
    """
    out, sums = getattr(aten, _FORWARD)(query, *args, attn_mask=attn_mask, **kwargs)
    return out if _is_flash(query, attn_mask) else _arranged(out, _positions_first(out)), sums


def backward(grad: Tensor, *args: Any, attn_mask: Tensor | None = None, **kwargs: Any) -> tuple[Tensor, ...]:
    """Compute the gradients, and arrange them as a GPU does."""
    grads = getattr(aten, _BACKWARD)(grad, *args, attn_mask=attn_mask, **kwargs)
    if not _is_flash(args[0], attn_mask):
        return grads
    return tuple(_arranged(each, torch.empty_like(given)) for each, given in zip(grads, args))


def _is_flash(query: Tensor, mask: Tensor | None) -> bool:
    return mask is None and query.dtype in {torch.float16, torch.bfloat16}


def _positions_first(like: Tensor) -> Tensor:
    return torch.empty_permuted(like.shape, (0, 2, 1, 3), dtype=like.dtype, device=like.device)


def _arranged(values: Tensor, room: Tensor) -> Tensor:
    return values if values.stride() == room.stride() else room.copy_(values)


KERNELS = {_FORWARD: forward, _BACKWARD: backward}
"""Only the host has these; they serve here in place of a GPU's own."""


def _flash(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, *, shares: bool) -> bool:
    heads = query.size(1) % key.size(1) == 0 if shares else query.size(1) == key.size(1)
    same = query.dim() == 4 and heads and query.size(-1) == value.size(-1) == key.size(-1)
    simple = mask is None or (mask.dim() in {2, 4} and not mask.requires_grad)
    return bool(same and simple and query.size(-2) and key.size(-2))


def _validate(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> None:
    if not query.dtype == key.dtype == value.dtype:
        names = [CPP_NAMES.get(tensor.dtype, str(tensor.dtype)) for tensor in (query, key, value)]
        raise RuntimeError(
            "Expected query, key, and value to have the same dtype, but got query.dtype: {} key.dtype: {} and "
            "value.dtype: {} instead.".format(*names)
        )
    if not query.device == key.device == value.device:
        raise RuntimeError(
            "Expected query, key, and value to have the same device type, but got "
            f"query.device: {query.device} key.device: {key.device} and value.device: {value.device} instead."
        )
    if min(query.dim(), key.dim(), value.dim()) < 2:
        raise RuntimeError(
            "Expected query, key, and value to all be  at least 2 dimensional, but got "
            f"query.dim: {query.dim()}, key.dim: {key.dim()} and value.dim: {value.dim()} instead."
        )
    if mask is not None and mask.device != query.device:
        raise two_devices(query.device, mask.device)
