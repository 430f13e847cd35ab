"""What is moved to a GPU with the inputs of a target, and what is not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from drygrad.worker.experiments.moving import Moving
from drygrad.worker.experiments.relation import NotTried


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, *grads: torch.Tensor) -> torch.Tensor:
        return grads[0]


def test_the_context_of_a_forward_keeps_its_tensors_where_they_were() -> None:
    apply: Callable[[torch.Tensor], torch.Tensor] = Square.apply  # pyright: ignore
    context = apply(torch.ones(2, requires_grad=True)).grad_fn
    with pytest.raises(NotTried, match="ctx"):
        Moving("meta").value([context])
    assert Moving("meta").value([torch.ones(2)])[0].device.type == "meta"
