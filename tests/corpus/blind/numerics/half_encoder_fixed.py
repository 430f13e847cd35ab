# target: embed_documents
"""Sentence embeddings for semantic search, served in half precision."""
import math
from typing import List

import torch
import torch.nn as nn
import torch.nn.functional as F

PAD_ID = 0


class SelfAttention(nn.Module):
    def __init__(self, dim: int, heads: int):
        super().__init__()
        self.heads, self.head_dim = heads, dim // heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x: torch.Tensor, pad_mask: torch.Tensor) -> torch.Tensor:
        b, t, d = x.shape
        qkv = self.qkv(x).view(b, t, 3, self.heads, self.head_dim)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.head_dim)
        scores = scores.masked_fill(pad_mask[:, None, None, :], torch.finfo(scores.dtype).min)
        out = scores.softmax(dim=-1) @ v
        return self.proj(out.transpose(1, 2).reshape(b, t, d))


class DocumentEncoder(nn.Module):
    def __init__(self, vocab: int = 1000, dim: int = 64, heads: int = 4, layers: int = 2):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim, padding_idx=PAD_ID)
        self.blocks = nn.ModuleList([SelfAttention(dim, heads) for _ in range(layers)])
        self.norms = nn.ModuleList([nn.LayerNorm(dim) for _ in range(layers)])

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        pad_mask = tokens == PAD_ID
        x = self.embed(tokens)
        for norm, block in zip(self.norms, self.blocks):
            x = x + block(norm(x), pad_mask)
        keep = (~pad_mask).unsqueeze(-1).to(x.dtype)
        return F.normalize((x * keep).sum(1) / keep.sum(1), dim=-1)


def pad_batch(docs: List[List[int]]) -> torch.Tensor:
    longest = max(len(d) for d in docs)
    return torch.tensor([d + [PAD_ID] * (longest - len(d)) for d in docs])


@torch.inference_mode()
def embed_documents(batch_size: int = 8) -> torch.Tensor:
    docs = [list(range(1, 5 + 3 * i)) for i in range(20)]
    model = DocumentEncoder().half().eval()
    chunks = [docs[i : i + batch_size] for i in range(0, len(docs), batch_size)]
    return torch.cat([model(pad_batch(chunk)) for chunk in chunks])
