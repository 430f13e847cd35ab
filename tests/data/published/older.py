"""What earlier versions of torch keep that today's does not, written with today's operations.

``programs.py`` uses it for figures that were measured with them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

_attention: Any = F.scaled_dot_product_attention


class _Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, dim: int) -> Tensor:
        result = x.softmax(dim)
        ctx.dim = dim
        ctx.save_for_backward(x, result)
        return result

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        _, result = ctx.saved_tensors
        return torch.ops.aten._softmax_backward_data(grads[0], result, ctx.dim, result.dtype), None


def softmax(x: Tensor, dim: int) -> Tensor:
    """Keep the input for backward, too: up to torch 1.10, whose ``SoftmaxBackward0`` has ``_saved_self``."""
    return _Softmax.apply(x, dim)  # pyright: ignore[reportUnknownMemberType, reportReturnType]


def attention(query: Tensor, key: Tensor, value: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Lay the result out by sample, position, head: flash attention until torch 2.1, whatever the query's layout.

    ``nn.MultiheadAttention`` has positions first, and so must copy what it passes on.
    """
    result = _attention(query, key, value, *args, **kwargs)
    return result.transpose(1, 2).clone(memory_format=torch.contiguous_format).transpose(1, 2)


class Adam(torch.optim.Optimizer):
    """Add epsilon into a second list of temporaries as large as the parameters: up to the first half of 2023."""

    def __init__(self, params: Iterable[Tensor], lr: float = 1e-3) -> None:
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            parameters = [p for p in group["params"] if p.grad is not None]
            for p in parameters:
                if not self.state[p]:
                    self.state[p] = {"mean": torch.zeros_like(p), "square": torch.zeros_like(p)}
            grads = [p.grad for p in parameters]
            means, squares = ([self.state[p][name] for p in parameters] for name in ("mean", "square"))
            torch._foreach_lerp_(means, grads, 0.1)
            torch._foreach_mul_(squares, 0.999)
            torch._foreach_addcmul_(squares, grads, grads, 0.001)
            roots = torch._foreach_sqrt(squares)
            torch._foreach_div_(roots, 1.0)
            denominators = torch._foreach_add(roots, 1e-8)
            torch._foreach_addcdiv_(parameters, means, denominators, -group["lr"])
