"""Rotary embeddings and grouped-query attention, with RMSNorm in float32 and a test of relative positions."""
from functools import lru_cache

import torch
import torch.nn as nn
import torch.nn.functional as F


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps)
        return (y * self.weight.float()).type_as(x)


@lru_cache(maxsize=4)
def rope_table(length, dim, device, base=10000.0):
    inv = base ** (-torch.arange(0, dim, 2, device=device, dtype=torch.float32) / dim)
    angle = torch.outer(torch.arange(length, device=device, dtype=torch.float32), inv)
    return angle.cos(), angle.sin()


def apply_rope(x, cos, sin):
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1).flatten(-2)


class GroupedQueryAttention(nn.Module):
    def __init__(self, dim, n_heads, n_kv):
        super().__init__()
        assert n_heads % n_kv == 0 and dim % n_heads == 0
        self.h, self.kv, self.d = n_heads, n_kv, dim // n_heads
        self.wq = nn.Linear(dim, n_heads * self.d, bias=False)
        self.wk = nn.Linear(dim, n_kv * self.d, bias=False)
        self.wv = nn.Linear(dim, n_kv * self.d, bias=False)
        self.wo = nn.Linear(n_heads * self.d, dim, bias=False)

    def forward(self, x):
        B, T, _ = x.shape
        q = self.wq(x).view(B, T, self.h, self.d).transpose(1, 2)
        k = self.wk(x).view(B, T, self.kv, self.d).transpose(1, 2)
        v = self.wv(x).view(B, T, self.kv, self.d).transpose(1, 2)
        cos, sin = rope_table(T, self.d, x.device)
        q, k = apply_rope(q, cos, sin), apply_rope(k, cos, sin)
        repeat = self.h // self.kv
        k, v = k.repeat_interleave(repeat, dim=1), v.repeat_interleave(repeat, dim=1)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.wo(y.transpose(1, 2).reshape(B, T, -1))


class Layer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.n1, self.n2 = RMSNorm(dim), RMSNorm(dim)
        self.attn = GroupedQueryAttention(dim, 4, 2)
        self.gate, self.up = nn.Linear(dim, 2 * dim, bias=False), nn.Linear(dim, 2 * dim, bias=False)
        self.down = nn.Linear(2 * dim, dim, bias=False)

    def forward(self, x):
        x = x + self.attn(self.n1(x))
        h = self.n2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


if __name__ == "__main__":
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    # the product of rotated vectors depends on the distance of their positions alone
    q, k = torch.randn(8, device=device), torch.randn(8, device=device)
    cos, sin = rope_table(12, 8, device)
    rq, rk = apply_rope(q.expand(12, 8), cos, sin), apply_rope(k.expand(12, 8), cos, sin)
    torch.testing.assert_close(rq[5] @ rk[2], rq[9] @ rk[6])

    embed, layer, head = nn.Embedding(10, 32), Layer(32), nn.Linear(32, 10)
    model = nn.Sequential(embed, layer, RMSNorm(32), head).to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=4e-3)
    for step in range(80):
        half = torch.randint(10, (32, 6), device=device)
        seq = torch.cat([half, half], dim=1)  # the second half copies the first
        logits = model(seq[:, :-1])[:, 5:]
        loss = F.cross_entropy(logits.reshape(-1, 10), seq[:, 6:].reshape(-1))
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 20 == 0:
            print(f"{step}: {loss.item():.3f}")
