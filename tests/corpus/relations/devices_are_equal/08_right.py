from typing import List

import torch
import torch.nn as nn


class DropPath(nn.Module):
    """Drops whole residual branches per sample while training.

    Args:
        rate: probability with which a branch is dropped.
    """

    def __init__(self, rate: float = 0.1):
        super().__init__()
        self.rate = rate

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.training or self.rate == 0.0:
            return x
        keep = 1.0 - self.rate
        shape = (x.shape[0],) + (1,) * (x.dim() - 1)
        mask = torch.empty(shape, device=x.device).uniform_() < keep
        return x * mask / keep

    def extra_repr(self) -> str:
        return f"rate={self.rate}"


class ConvNeXtBlock(nn.Module):
    """Depthwise convolution, layer norm, pointwise expansion, layer scale."""

    def __init__(self, dim: int, drop_path: float = 0.1, scale: float = 1e-2):
        super().__init__()
        self.depthwise = nn.Conv2d(dim, dim, 7, padding=3, groups=dim)
        self.norm = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, 4 * dim)
        self.act = nn.GELU()
        self.down = nn.Linear(4 * dim, dim)
        self.gamma = nn.Parameter(torch.full((dim,), scale))
        self.drop_path = DropPath(drop_path)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.depthwise(x).permute(0, 2, 3, 1)
        h = self.gamma * self.down(self.act(self.up(self.norm(h))))
        return x + self.drop_path(h.permute(0, 3, 1, 2))


def make_stage(dim: int, depth: int, start: float, stop: float) -> nn.Sequential:
    """Blocks whose drop rate grows linearly from ``start`` to ``stop``."""
    rates: List[float] = torch.linspace(start, stop, depth).tolist()
    return nn.Sequential(*(ConvNeXtBlock(dim, rate) for rate in rates))
