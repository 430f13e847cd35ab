# source: https://github.com/mlfoundations/open_lm/issues/4
# target: CausalSelfAttention.forward
# truth: the rotary module rotates along dim -2, but queries and keys are (batch, seq, heads, head_dim) at this point, so
#   the angle depends on the head and not on the position: the model gets no position information, with no error
from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass
class Params:
    dim: int = 64
    n_layers: int = 2
    n_heads: int = 4
    vocab_size: int = 256
    seq_len: int = 64
    qk_norm: bool = False
    norm_eps: float = 1e-5


def rotate_half(x: Tensor) -> Tensor:
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat((-x2, x1), dim=-1)


class RotaryEmbedding(nn.Module):
    """Rotary position embedding for (..., seq, head_dim) tensors with cached tables."""

    def __init__(self, head_dim: int, max_len: int, base: float = 10000.0):
        super().__init__()
        inv_freq = 1.0 / (base ** (torch.arange(0, head_dim, 2).float() / head_dim))
        angles = torch.outer(torch.arange(max_len).float(), inv_freq)
        angles = torch.cat((angles, angles), dim=-1)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def apply(self, x: Tensor, offset: int) -> Tensor:
        length = x.size(-2)
        cos, sin = self.cos[offset : offset + length], self.sin[offset : offset + length]
        return (x * cos + rotate_half(x) * sin).to(x.dtype)

    def forward(self, q: Tensor, k: Tensor, offset: int = 0) -> tuple[Tensor, Tensor]:
        return self.apply(q, offset), self.apply(k, offset)


class CausalSelfAttention(nn.Module):
    def __init__(self, args: Params):
        super().__init__()
        self.n_heads = args.n_heads
        self.head_dim = args.dim // args.n_heads
        self.in_proj = nn.Linear(args.dim, 3 * args.dim, bias=False)
        self.out_proj = nn.Linear(args.dim, args.dim, bias=False)
        self.rotary = RotaryEmbedding(self.head_dim, args.seq_len)
        norm = nn.LayerNorm if args.qk_norm else nn.Identity
        self.q_norm = norm(args.dim)
        self.k_norm = norm(args.dim)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        queries, keys, vals = self.in_proj(x).chunk(3, dim=-1)
        queries, keys = self.q_norm(queries), self.k_norm(keys)
        shape = (batch, length, self.n_heads, self.head_dim)
        queries, keys, vals = queries.view(shape), keys.view(shape), vals.view(shape)
        queries, keys = self.rotary(queries, keys)  # culprit
        queries, keys, vals = (t.transpose(1, 2) for t in (queries, keys, vals))
        out = F.scaled_dot_product_attention(queries, keys, vals, is_causal=True)
        return self.out_proj(out.transpose(1, 2).reshape(batch, length, -1))


class SwiGLU(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        hidden = 256 * ((int(2 * 4 * dim / 3) + 255) // 256)
        self.w12 = nn.Linear(dim, 2 * hidden, bias=False)
        self.w3 = nn.Linear(hidden, dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        gate, up = self.w12(x).chunk(2, dim=-1)
        return self.w3(F.silu(gate) * up)


class Block(nn.Module):
    def __init__(self, args: Params):
        super().__init__()
        self.attention = CausalSelfAttention(args)
        self.feed_forward = SwiGLU(args.dim)
        self.attention_norm = nn.LayerNorm(args.dim, eps=args.norm_eps)
        self.ffn_norm = nn.LayerNorm(args.dim, eps=args.norm_eps)

    def forward(self, x: Tensor) -> Tensor:
        h = x + self.attention(self.attention_norm(x))
        return h + self.feed_forward(self.ffn_norm(h))


class Transformer(nn.Module):
    def __init__(self, args: Params):
        super().__init__()
        self.tok_embeddings = nn.Embedding(args.vocab_size, args.dim)
        self.layers = nn.ModuleList([Block(args) for _ in range(args.n_layers)])
        self.norm = nn.LayerNorm(args.dim, eps=args.norm_eps)
        self.output = nn.Linear(args.dim, args.vocab_size, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tok_embeddings(ids)
        for layer in self.layers:
            x = layer(x)
        return self.output(self.norm(x))
