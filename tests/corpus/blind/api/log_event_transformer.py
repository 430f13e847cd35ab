# target: EventTransformer.forward
# truth: Silently wrong: the heads (B, H, T, d) are merged by reshape(B, T, D) without transposing back to (B, T, H, d) first, so positions and heads are mixed and a position sees later events in spite of the causal mask.
"""Next-event model for server logs (anomaly score = negative log-likelihood)."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class CausalSelfAttention(nn.Module):
    def __init__(self, dim: int, heads: int, dropout: float):
        super().__init__()
        assert dim % heads == 0
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.drop = nn.Dropout(dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        B, T, D = x.shape
        q, k, v = (
            t.view(B, T, self.heads, D // self.heads).transpose(1, 2) for t in self.qkv(x).chunk(3, dim=-1)
        )
        att = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        causal = torch.ones(T, T, dtype=torch.bool, device=x.device).tril()
        att = att.masked_fill(~causal, float("-inf")).softmax(dim=-1)
        out = self.drop(att) @ v
        return self.proj(out.reshape(B, T, D))  # error: DG318


class Block(nn.Module):
    def __init__(self, dim: int, heads: int, dropout: float):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = CausalSelfAttention(dim, heads, dropout)
        self.mlp = nn.Sequential(
            nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim), nn.Dropout(dropout)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attn(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class EventTransformer(nn.Module):
    def __init__(self, n_events: int, max_len: int = 128, dim: int = 64, heads: int = 4,
                 depth: int = 2, dropout: float = 0.1):
        super().__init__()
        self.tok = nn.Embedding(n_events, dim)
        self.pos = nn.Embedding(max_len, dim)
        self.blocks = nn.ModuleList([Block(dim, heads, dropout) for _ in range(depth)])
        self.ln = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, n_events, bias=False)

    def forward(self, events: torch.Tensor) -> torch.Tensor:
        """events: (B, T) template ids -> logits for the next event, (B, T, n_events)."""
        h = self.tok(events) + self.pos(torch.arange(events.size(1), device=events.device))
        for block in self.blocks:
            h = block(h)
        return self.head(self.ln(h))

    def loss(self, events: torch.Tensor) -> torch.Tensor:
        logits = self(events[:, :-1])
        return F.cross_entropy(logits.flatten(0, 1), events[:, 1:].flatten())

    @torch.no_grad()
    def anomaly_score(self, events: torch.Tensor) -> torch.Tensor:
        """Mean negative log-likelihood per sequence, (B,)."""
        logits = self(events[:, :-1]).transpose(1, 2)
        return F.cross_entropy(logits, events[:, 1:], reduction="none").mean(dim=1)
