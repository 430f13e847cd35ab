"""The models of published measurements as their libraries build them: torchvision's ViT, transformers' BERT, GPT-2."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

softmax: Any = torch.softmax
"""That of BERT's layers, which ``programs.py`` replaces."""


class EncoderBlock(nn.Module):
    """A block of torchvision's vision transformer."""

    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(width, eps=1e-6)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.ln_2 = nn.LayerNorm(width, eps=1e-6)
        self.mlp = nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Dropout(0.0), nn.Linear(hidden, width))

    def forward(self, x: Tensor) -> Tensor:
        y = self.ln_1(x)
        y, _ = self.attention(y, y, y, need_weights=False)
        x = x + y
        return x + self.mlp(self.ln_2(x))


class VisionTransformer(nn.Module):
    """``vit_l_16`` of torchvision by default."""

    def __init__(
        self,
        width: int = 1024,
        depth: int = 24,
        heads: int = 16,
        patch: int = 16,
        classes: int = 1000,
        image: int = 224,
    ) -> None:
        super().__init__()
        self.conv_proj = nn.Conv2d(3, width, patch, patch)
        self.class_token = nn.Parameter(torch.zeros(1, 1, width))
        self.pos_embedding = nn.Parameter(torch.zeros(1, (224 // patch) ** 2 + 1, width))
        self.layers = nn.Sequential(*[EncoderBlock(width, heads, 4 * width) for _ in range(depth)])
        self.ln = nn.LayerNorm(width, eps=1e-6)
        self.head = nn.Linear(width, classes)

    def forward(self, images: Tensor) -> Tensor:
        x = self.conv_proj(images).flatten(2).permute(0, 2, 1)
        x = torch.cat([self.class_token.expand(x.shape[0], -1, -1), x], dim=1)
        x = self.ln(self.layers(x + self.pos_embedding))
        return self.head(x[:, 0])


class BertLayer(nn.Module):
    """A layer of transformers' BERT with its own attention."""

    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.attention_output = nn.Linear(width, width)
        self.attention_norm = nn.LayerNorm(width, eps=1e-12)
        self.intermediate = nn.Linear(width, hidden)
        self.output = nn.Linear(hidden, width)
        self.output_norm = nn.LayerNorm(width, eps=1e-12)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        query, key, value = (self.split(layer(x)) for layer in (self.query, self.key, self.value))
        scores = torch.matmul(query, key.transpose(-1, -2)) / (query.shape[-1] ** 0.5)
        weights = self.dropout(softmax(scores + mask, -1))
        y = torch.matmul(weights, value).permute(0, 2, 1, 3).contiguous().flatten(2)
        x = self.attention_norm(self.dropout(self.attention_output(y)) + x)
        y = self.output(F.gelu(self.intermediate(x)))
        return self.output_norm(self.dropout(y) + x)

    def split(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], self.heads, -1).permute(0, 2, 1, 3)


class BertLarge(nn.Module):
    """``bert-large-uncased`` with a head of two classes."""

    def __init__(self, *, checkpointing: bool = False) -> None:
        super().__init__()
        width = 1024
        self.checkpointing = checkpointing
        self.words = nn.Embedding(30522, width, padding_idx=0)
        self.positions = nn.Embedding(512, width)
        self.types = nn.Embedding(2, width)
        self.norm = nn.LayerNorm(width, eps=1e-12)
        self.dropout = nn.Dropout(0.1)
        self.layers = nn.ModuleList(BertLayer(width, 16, 4 * width) for _ in range(24))
        self.pooler = nn.Linear(width, width)
        self.classifier = nn.Linear(width, 2)

    def forward(self, ids: Tensor) -> Tensor:
        places = torch.arange(ids.shape[1], device=ids.device)[None]
        x = self.words(ids) + self.types(torch.zeros_like(ids)) + self.positions(places)
        x = self.dropout(self.norm(x))
        mask = torch.zeros(ids.shape[0], 1, 1, ids.shape[1], device=ids.device)
        for layer in self.layers:
            if self.checkpointing:
                x = torch.utils.checkpoint.checkpoint(layer, x, mask, use_reentrant=True)
            else:
                x = layer(x, mask)
        return self.classifier(self.dropout(torch.tanh(self.pooler(x[:, 0]))))


class GPTBlock(nn.Module):
    """A block of GPT-2 with attention written out, as Megatron's analysis counts it."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.rate = heads, dropout
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        query, key, value = self.qkv(self.ln_1(x)).split(width, dim=2)
        query, key, value = (
            part.view(batch, length, self.heads, width // self.heads).transpose(1, 2) for part in (query, key, value)
        )
        scores = query @ key.transpose(-2, -1) * (width // self.heads) ** -0.5
        weights = self.dropout(scores.softmax(-1))
        y = (weights @ value).transpose(1, 2).reshape(batch, length, width)
        x = x + self.dropout(self.proj(y))
        return x + self.dropout(self.down(F.gelu(self.up(self.ln_2(x)))))


class GPT(nn.Module):
    """GPT-2, its head tied to its embedding."""

    def __init__(
        self, width: int, depth: int, heads: int, length: int = 1024, words: int = 50257, dropout: float = 0.1
    ) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(words, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(GPTBlock(width, heads, dropout) for _ in range(depth))
        self.norm = nn.LayerNorm(width)

    def forward(self, ids: Tensor, targets: Tensor) -> Any:
        x = self.words(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm(x), self.words.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())
