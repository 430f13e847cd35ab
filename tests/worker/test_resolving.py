"""What is called when a target is run."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import pytest
import torch

from drygrad.worker.elsewhere import CallFailed
from drygrad.worker.resolving import resolve


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, scale: float = 2.0) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * x * scale

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (x,) = ctx.saved_tensors
        return grads[0] * 4 * x, None


class Apart(torch.autograd.Function):
    @staticmethod
    def forward(x: torch.Tensor) -> torch.Tensor:
        return x * 3

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0] * 3


class Net(torch.nn.Module):
    read = 0

    @property
    def width(self) -> int:
        self.read += 1
        return 3

    @cached_property
    def depth(self) -> int:
        return 5

    def forward(self, x: int) -> int:
        return x + 1


NAMES = {"Square": Square, "Apart": Apart, "Net": Net}


def test_a_function_of_autograd_is_applied_with_arguments_by_name_and_defaults() -> None:
    x = torch.ones(2, requires_grad=True)
    result = resolve(NAMES, "Square.forward", None)(x=x)
    result.sum().backward()
    assert result.tolist() == [2.0, 2.0]
    assert x.grad is not None
    assert torch.equal(x.grad, torch.tensor([4.0, 4.0]))


def test_one_that_sets_its_context_apart_gets_all_its_arguments() -> None:
    x = torch.ones(2, requires_grad=True)
    result = resolve(NAMES, "Apart.forward", None)(x=x)
    assert result.grad_fn is not None
    assert result.tolist() == [3.0, 3.0]


def test_a_property_is_read_when_it_is_called_and_not_before() -> None:
    net = Net()
    reading = resolve(NAMES, "Net.width", net)
    assert net.read == 0
    assert (reading(), net.read) == (3, 1)
    assert resolve(NAMES, "Net.depth", net)() == 5


def test_a_forward_is_called_through_its_module() -> None:
    net = Net()
    assert resolve(NAMES, "Net.forward", net) is net
    with pytest.raises(CallFailed):
        resolve(NAMES, "Net.other", net)
