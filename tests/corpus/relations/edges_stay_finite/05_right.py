import math
from typing import Optional

import torch
import torch.nn as nn


class CrossAttention(nn.Module):
    """Queries attend to a padded memory.

    Args:
        dim: size of queries and output.
        memory_dim: size of the memory's entries.
        heads: number of heads.
    """

    def __init__(self, dim: int, memory_dim: int, heads: int = 4):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(dim, dim)
        self.key = nn.Linear(memory_dim, dim)
        self.value = nn.Linear(memory_dim, dim)
        self.out = nn.Linear(dim, dim)

    def _heads(self, x: torch.Tensor) -> torch.Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, x: torch.Tensor, memory: torch.Tensor,
                valid: Optional[torch.Tensor] = None) -> torch.Tensor:
        """Attends from (B, N, dim) to (B, M, memory_dim).

        ``valid`` (B, M) is true for real entries; retrieval may return none for a sample.
        """
        q = self._heads(self.query(x))
        k, v = self._heads(self.key(memory)), self._heads(self.value(memory))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if valid is not None:
            scores = scores.masked_fill(~valid[:, None, None, :], torch.finfo(scores.dtype).min)
        weights = scores.softmax(dim=-1)
        if valid is not None:
            weights = weights * valid[:, None, None, :]
        y = (weights @ v).transpose(1, 2).flatten(-2)
        return self.out(y)


class RetrievalBlock(nn.Module):
    """Adds retrieved facts to token states through a gate."""

    def __init__(self, dim: int, fact_dim: int):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.attend = CrossAttention(dim, fact_dim)
        self.gate = nn.Linear(2 * dim, dim)

    def forward(self, tokens: torch.Tensor, facts: torch.Tensor,
                valid: Optional[torch.Tensor] = None) -> torch.Tensor:
        found = self.attend(self.norm(tokens), facts, valid)
        gate = torch.sigmoid(self.gate(torch.cat([tokens, found], dim=-1)))
        return tokens + gate * found
