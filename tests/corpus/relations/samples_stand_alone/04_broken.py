"""Pre-norm feed forward stack for tabular transformers."""
import torch
import torch.nn as nn


class TokenNorm(nn.Module):
    """Normalises the features of every token, with learned gain and offset.

    x: (rows, columns, dim) -> (rows, columns, dim)
    """

    def __init__(self, dim: int, eps: float = 1e-5):
        super().__init__()
        self.eps = eps
        self.gain = nn.Parameter(torch.ones(dim))
        self.offset = nn.Parameter(torch.zeros(dim))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean = x.mean(dim=0, keepdim=True)
        var = x.var(dim=0, keepdim=True, unbiased=False)
        return self.gain * (x - mean) * torch.rsqrt(var + self.eps) + self.offset


class FeedForward(nn.Module):
    """Gated feed forward with residual connection on (rows, columns, dim)."""

    def __init__(self, dim: int, mult: int = 2):
        super().__init__()
        self.norm = TokenNorm(dim)
        self.up = nn.Linear(dim, 2 * mult * dim)
        self.down = nn.Linear(mult * dim, dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a, g = self.up(self.norm(x)).chunk(2, dim=-1)
        return x + self.down(a * torch.sigmoid(g))
