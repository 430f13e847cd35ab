"""A training step of a GPT, of two sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Size(NamedTuple):
    """What a GPT is made of; ``length`` is that of the texts, in words."""

    vocabulary: int = 512
    width: int = 128
    length: int = 128
    layers: int = 4
    heads: int = 4


SMALL = Size()
CHARACTERS = Size(vocabulary=65, width=384, length=256, layers=6, heads=6)
"""As large as the models that people train on the characters of a book: ten million parameters."""


class Block(nn.Module):
    """One layer."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        width = size.width
        self.heads = size.heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.feed(self.norm2(x))


class GPT(nn.Module):
    """The model."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(size.vocabulary, size.width), nn.Embedding(size.length, size.width)
        self.blocks = nn.Sequential(*[Block(size) for _ in range(size.layers)])
        self.norm, self.head = nn.LayerNorm(size.width), nn.Linear(size.width, size.vocabulary)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        return self.head(self.norm(self.blocks(x)))


def training_step(device: str, batch: int, size: Size = SMALL) -> Callable[[], Tensor]:
    """Make a model, its optimizer and a batch; return the step that trains on it."""
    model = GPT(size).to(device)
    optimizer: Any = torch.optim.AdamW(model.parameters(), lr=1e-3)
    ids = torch.randint(0, size.vocabulary, (batch, size.length + 1), device=device)

    def step() -> Tensor:
        optimizer.zero_grad()
        logits = model(ids[:, :-1])
        loss: Any = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        return loss

    return step
