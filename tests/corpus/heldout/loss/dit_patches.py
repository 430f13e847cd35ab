# target: diffusion_loss
# truth: PatchCodec.decode permutes to (b, c, rows, cols, p, p) instead of (b, c, rows, p, cols, p) before merging, so
#   the reshape puts every pixel of a patch in the wrong place: decode is not the inverse of encode; no error, the
#   predicted noise image is scrambled and the loss stays high.
"""Small diffusion transformer working on image patches."""
import math

import torch
import torch.nn.functional as F
from torch import nn


def timestep_embedding(t, dim, max_period=10000):
    half = dim // 2
    freqs = torch.exp(-math.log(max_period) * torch.arange(half, device=t.device) / half)
    args = t.float()[:, None] * freqs[None]
    return torch.cat([args.cos(), args.sin()], dim=-1)


class PatchCodec:
    """Image (B, C, H, W) <-> patch tokens (B, H/p * W/p, p * p * C)."""

    def __init__(self, patch, channels):
        self.p, self.c = patch, channels

    def encode(self, x):
        b, c, h, w = x.shape
        x = x.reshape(b, c, h // self.p, self.p, w // self.p, self.p)
        return x.permute(0, 2, 4, 3, 5, 1).reshape(b, -1, self.p * self.p * c)

    def decode(self, tokens, rows, cols):
        x = tokens.reshape(tokens.shape[0], rows, cols, self.p, self.p, self.c)
        x = x.permute(0, 5, 1, 2, 3, 4)  # fault: no rule
        return x.reshape(x.shape[0], self.c, rows * self.p, cols * self.p)


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim, elementwise_affine=False)
        self.norm2 = nn.LayerNorm(dim, elementwise_affine=False)
        self.attn = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
        self.mod = nn.Linear(dim, 6 * dim)
        nn.init.zeros_(self.mod.weight)
        nn.init.zeros_(self.mod.bias)

    def forward(self, x, cond):
        s1, b1, g1, s2, b2, g2 = self.mod(F.silu(cond)).unsqueeze(1).chunk(6, dim=-1)
        h = self.norm1(x) * (1 + s1) + b1
        x = x + g1 * self.attn(h, h, h, need_weights=False)[0]
        return x + g2 * self.mlp(self.norm2(x) * (1 + s2) + b2)


class DiT(nn.Module):
    def __init__(self, size=32, patch=4, channels=3, dim=128, depth=4, heads=4):
        super().__init__()
        self.codec, self.dim, self.side = PatchCodec(patch, channels), dim, size // patch
        self.embed = nn.Linear(patch * patch * channels, dim)
        self.pos = nn.Parameter(0.02 * torch.randn(1, self.side ** 2, dim))
        self.time = nn.Sequential(nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, dim))
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(depth))
        self.head = nn.Linear(dim, patch * patch * channels)

    def forward(self, x, t):
        cond = self.time(timestep_embedding(t, self.dim))
        h = self.embed(self.codec.encode(x)) + self.pos
        for block in self.blocks:
            h = block(h, cond)
        return self.codec.decode(self.head(h), self.side, self.side)


def diffusion_loss(model, x0, a_bar):
    """Noise-prediction loss; a_bar holds the cumulative products of the alphas."""
    t = torch.randint(0, a_bar.shape[0], (x0.shape[0],), device=x0.device)
    a = a_bar[t].view(-1, 1, 1, 1)
    noise = torch.randn_like(x0)
    x_t = a.sqrt() * x0 + (1 - a).sqrt() * noise
    return F.mse_loss(model(x_t, t), noise)
