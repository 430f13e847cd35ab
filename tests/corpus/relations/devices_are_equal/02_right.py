import math
from typing import Optional

import torch
import torch.nn as nn


class WindowAttention(nn.Module):
    """Self-attention in which a position only sees its neighbourhood.

    Args:
        dim: size of the tokens.
        heads: number of heads.
        max_len: longest sequence.
        radius: positions further apart than this do not see each other.
    """

    def __init__(self, dim: int, heads: int = 4, max_len: int = 256, radius: int = 16):
        super().__init__()
        if dim % heads:
            raise ValueError("dim must be divisible by heads")
        self.heads = heads
        self.scale = 1 / math.sqrt(dim // heads)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        index = torch.arange(max_len)
        far = (index[:, None] - index[None, :]).abs() > radius
        self.register_buffer("far", far, persistent=False)

    def forward(self, x: torch.Tensor, padding: Optional[torch.Tensor] = None) -> torch.Tensor:
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = (q @ k.transpose(-2, -1)) * self.scale
        scores = scores.masked_fill(self.far[:n, :n], -1e9)
        if padding is not None:
            scores = scores.masked_fill(padding[:, None, None, :], -1e9)
        y = scores.softmax(dim=-1) @ v
        return self.out(y.transpose(1, 2).reshape(b, n, d))


class WindowBlock(nn.Module):
    """Pre-norm block of windowed attention and a feed-forward network."""

    def __init__(self, dim: int, **kwargs):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = WindowAttention(dim, **kwargs)
        self.ff = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x: torch.Tensor, padding: Optional[torch.Tensor] = None) -> torch.Tensor:
        x = x + self.attn(self.norm1(x), padding)
        return x + self.ff(self.norm2(x))
