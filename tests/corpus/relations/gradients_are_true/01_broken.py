from typing import Any

import torch
import torch.nn as nn


class SwishFunction(torch.autograd.Function):
    """Swish that only keeps its input for the backward pass."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x)

    @staticmethod
    def backward(ctx: Any, grad_output: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        gate = torch.sigmoid(x)
        return grad_output * x * gate * (1 - gate)


class Swish(nn.Module):
    """Memory-efficient swish activation."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return SwishFunction.apply(x)


class SqueezeExcite(nn.Module):
    """Channel attention from globally pooled features."""

    def __init__(self, channels: int, reduced: int):
        super().__init__()
        self.reduce = nn.Conv2d(channels, reduced, 1)
        self.act = Swish()
        self.expand = nn.Conv2d(reduced, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pooled = x.mean(dim=(2, 3), keepdim=True)
        return x * torch.sigmoid(self.expand(self.act(self.reduce(pooled))))


class MBConv(nn.Module):
    """Inverted residual block with a depthwise convolution."""

    def __init__(self, channels: int, expand: int = 4, kernel: int = 3):
        super().__init__()
        mid = channels * expand
        self.widen = nn.Conv2d(channels, mid, 1)
        self.depthwise = nn.Conv2d(mid, mid, kernel, padding=kernel // 2, groups=mid)
        self.attend = SqueezeExcite(mid, max(1, channels // 4))
        self.narrow = nn.Conv2d(mid, channels, 1)
        self.act = Swish()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.act(self.depthwise(self.act(self.widen(x))))
        return x + self.narrow(self.attend(h))
