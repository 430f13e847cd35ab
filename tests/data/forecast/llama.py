"""Llama 70B, sharded over ranks with fully_shard."""

import os
from dataclasses import dataclass

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.utils.checkpoint import checkpoint


@dataclass
class Config:
    vocab: int = 128256
    dim: int = 8192
    layers: int = 80
    heads: int = 64
    kv_heads: int = 8
    hidden: int = 28672
    seq: int = 4096


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return (x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + self.eps)).type_as(x) * self.weight


def rope(x, freqs):
    x_ = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(x_ * freqs[None, :, None, :]).flatten(3).type_as(x)


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.h, self.k, self.d = c.heads, c.kv_heads, c.dim // c.heads
        self.wq = nn.Linear(c.dim, c.heads * self.d, bias=False)
        self.wk = nn.Linear(c.dim, c.kv_heads * self.d, bias=False)
        self.wv = nn.Linear(c.dim, c.kv_heads * self.d, bias=False)
        self.wo = nn.Linear(c.heads * self.d, c.dim, bias=False)

    def forward(self, x, freqs):
        b, s, _ = x.shape
        q = rope(self.wq(x).view(b, s, self.h, self.d), freqs)
        k = rope(self.wk(x).view(b, s, self.k, self.d), freqs)
        v = self.wv(x).view(b, s, self.k, self.d)
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.wo(o.transpose(1, 2).reshape(b, s, -1))


class MLP(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.w1 = nn.Linear(c.dim, c.hidden, bias=False)
        self.w2 = nn.Linear(c.hidden, c.dim, bias=False)
        self.w3 = nn.Linear(c.dim, c.hidden, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.att, self.mlp = Attention(c), MLP(c)
        self.n1, self.n2 = RMSNorm(c.dim), RMSNorm(c.dim)

    def forward(self, x, freqs):
        x = x + self.att(self.n1(x), freqs)
        return x + self.mlp(self.n2(x))


class Llama(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.tok = nn.Embedding(c.vocab, c.dim)
        self.blocks = nn.ModuleList(Block(c) for _ in range(c.layers))
        self.norm = RMSNorm(c.dim)
        self.out = nn.Linear(c.dim, c.vocab, bias=False)
        self.register_buffer(
            "freqs", torch.empty(c.seq, c.dim // c.heads // 2, dtype=torch.complex64), persistent=False
        )

    def init_weights(self):
        d = self.c.dim // self.c.heads
        f = 1.0 / 500000.0 ** (torch.arange(0, d, 2, device=self.freqs.device)[: d // 2].float() / d)
        t = torch.outer(torch.arange(self.c.seq, device=f.device).float(), f)
        self.freqs = torch.polar(torch.ones_like(t), t)
        for p in self.parameters():
            nn.init.normal_(p, std=0.02)

    def forward(self, tokens):
        x = self.tok(tokens)
        for block in self.blocks:
            x = checkpoint(block, x, self.freqs, use_reentrant=False)
        return self.out(self.norm(x))


def main():
    world = int(os.environ.get("WORLD_SIZE", 64))
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
    mesh = init_device_mesh("cuda", (world,), mesh_dim_names=("dp",))
    c = Config()
    with torch.device("meta"):
        model = Llama(c)
    mp = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in model.blocks:
        fully_shard(block, mesh=mesh, mp_policy=mp, reshard_after_forward=True)
    fully_shard(model, mesh=mesh, mp_policy=mp)
    for a, b in zip(model.blocks, model.blocks[1:]):
        a.set_modules_to_forward_prefetch([b])
    model.to_empty(device="cuda")
    model.init_weights()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    for step in range(100):
        tokens = torch.randint(0, c.vocab, (1, c.seq + 1), device="cuda")
        logits = model(tokens[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if dist.get_rank() == 0:
            print(step, loss.item(), norm)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
