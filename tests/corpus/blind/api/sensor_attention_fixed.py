# target: SensorTransformer.forward
"""Self-attention over multivariate sensor windows."""
import math

import torch
from torch import nn, Tensor


class SelfAttention(nn.Module):
    def __init__(self, dim: int, heads: int, dropout: float = 0.0):
        super().__init__()
        if dim % heads:
            raise ValueError("dim must be divisible by heads")
        self.heads = heads
        self.head_dim = dim // heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.dropout = nn.Dropout(dropout)

    def _split_heads(self, x: Tensor) -> Tensor:
        b, t, _ = x.shape
        return x.reshape(b, t, self.heads, self.head_dim).transpose(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        b, t, c = x.shape
        q, k, v = (self._split_heads(z) for z in self.qkv(x).chunk(3, dim=-1))
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.head_dim)
        causal = torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1)
        attn = self.dropout(scores.masked_fill(causal, float("-inf")).softmax(dim=-1))
        out = (attn @ v).transpose(1, 2).reshape(b, t, c)
        return self.proj(out)


class Block(nn.Module):
    def __init__(self, dim: int, heads: int, dropout: float):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.attn = SelfAttention(dim, heads, dropout)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class SensorTransformer(nn.Module):
    """Predicts the next reading of every sensor at every time step (causal)."""

    def __init__(self, n_sensors: int, dim: int = 64, heads: int = 4, depth: int = 2,
                 max_len: int = 512, dropout: float = 0.1):
        super().__init__()
        self.inp = nn.Linear(n_sensors, dim)
        self.pos = nn.Parameter(torch.zeros(1, max_len, dim))
        self.blocks = nn.ModuleList(Block(dim, heads, dropout) for _ in range(depth))
        self.out = nn.Linear(dim, n_sensors)
        nn.init.trunc_normal_(self.pos, std=0.02)

    def forward(self, x: Tensor) -> Tensor:
        """x: (batch, time, n_sensors) -> same shape"""
        h = self.inp(x) + self.pos[:, : x.size(1)]
        for block in self.blocks:
            h = block(h)
        return self.out(h)
