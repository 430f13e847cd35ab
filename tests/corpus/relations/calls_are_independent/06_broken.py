"""Greedy decoding with a key value cache."""
from typing import List

import torch
import torch.nn as nn


class CachedAttention(nn.Module):
    """Single head attention over all positions seen so far, x: (batch, 1, dim)."""

    def __init__(self, dim: int):
        super().__init__()
        self.qkv = nn.Linear(dim, 3 * dim)
        self.cache: List[torch.Tensor] = []

    def reset(self) -> None:
        self.cache = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        if self.cache:
            k = torch.cat([self.cache[0], k], dim=1)
            v = torch.cat([self.cache[1], v], dim=1)
        self.cache = [k, v]
        w = (q @ k.transpose(1, 2) / x.size(-1) ** 0.5).softmax(-1)
        return w @ v


class TinyDecoder(nn.Module):
    """One layer language model for step by step decoding."""

    def __init__(self, vocab: int = 60, dim: int = 32):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.attn = CachedAttention(dim)
        self.norm = nn.LayerNorm(dim)
        self.out = nn.Linear(dim, vocab)

    def step(self, token: torch.Tensor) -> torch.Tensor:
        """Logits (batch, vocab) for the token (batch,) that follows."""
        x = self.embed(token).unsqueeze(1)
        return self.out(self.norm(x + self.attn(x))).squeeze(1)

    @torch.no_grad()
    def generate(self, prompt: torch.Tensor, steps: int = 8) -> torch.Tensor:
        """Continue prompt (batch, length) greedily, returns the logits (batch, steps, vocab)."""
        for token in prompt.unbind(dim=1):
            logits = self.step(token)
        out = [logits]
        for _ in range(steps - 1):
            out.append(self.step(out[-1].argmax(-1)))
        return torch.stack(out, dim=1)
