# source: https://github.com/lucidrains/memory-compressed-attention/issues/2
import torch
import torch.nn.functional as F
from torch import nn


def exists(val):
    return val is not None


class ConvCompress(nn.Module):
    """Shortens keys and values along the sequence with a strided, grouped convolution."""

    def __init__(self, dim, ratio=3, groups=1):
        super().__init__()
        self.conv = nn.Conv1d(dim, dim, ratio, stride=ratio, groups=groups)

    def forward(self, mem):
        return self.conv(mem.transpose(1, 2)).transpose(1, 2)


class MemoryCompressedAttention(nn.Module):
    def __init__(self, dim, heads=4, causal=False, compression_factor=3, dropout=0.0):
        super().__init__()
        assert dim % heads == 0, "dimension must be divisible by number of heads"
        self.heads = heads
        self.causal = causal
        self.compression_factor = compression_factor
        self.compress_fn = ConvCompress(dim, compression_factor, groups=heads)
        self.to_qkv = nn.Linear(dim, dim * 3, bias=False)
        self.to_out = nn.Linear(dim, dim)
        self.dropout = nn.Dropout(dropout)
        self.null_k = nn.Parameter(torch.zeros(1, 1, dim))
        self.null_v = nn.Parameter(torch.zeros(1, 1, dim))

    def forward(self, x, input_mask=None):
        b, t, d = x.shape
        h, cf = self.heads, self.compression_factor
        q, k, v = self.to_qkv(x).chunk(3, dim=-1)

        padding = cf - (t % cf)
        if padding < cf:
            k, v = map(lambda z: F.pad(z, (0, 0, padding, 0)), (k, v))
        k, v = map(self.compress_fn, (k, v))

        nk, nv = map(lambda z: z.expand(b, -1, -1), (self.null_k, self.null_v))
        k, v = torch.cat((nk, k), dim=1), torch.cat((nv, v), dim=1)
        q, k, v = map(lambda z: z.reshape(b, -1, h, d // h).transpose(1, 2), (q, k, v))

        dots = torch.einsum("bhid,bhjd->bhij", q, k) * d ** -0.5
        mask_value = float("-inf")

        if self.causal:
            mask_q = mask_k = torch.arange(t, device=x.device)
            if padding < cf:
                mask_k = F.pad(mask_k, (padding, 0))
            mask_k, _ = mask_k.reshape(-1, cf).max(dim=-1)
            mask = mask_q[:, None] < mask_k[None, :]
            mask = F.pad(mask, (1, 0), value=False)
            dots = dots.masked_fill(mask[None, None], mask_value)

        if exists(input_mask):
            mask_k = F.pad(input_mask, (padding, 0), value=True) if padding < cf else input_mask
            mask_k = mask_k.reshape(b, -1, cf).sum(dim=-1) > 0
            mask = F.pad(mask_k, (1, 0), value=True)[:, None, None, :]
            dots = dots.masked_fill(~mask, mask_value)

        attn = self.dropout(dots.softmax(dim=-1))
        out = torch.einsum("bhij,bhjd->bhid", attn, v)
        return self.to_out(out.transpose(1, 2).reshape(b, t, d))


class Summarizer(nn.Module):
    def __init__(self, num_tokens, dim=32, depth=2, causal=True):
        super().__init__()
        self.token_emb = nn.Embedding(num_tokens, dim)
        self.layers = nn.ModuleList([])
        for _ in range(depth):
            self.layers.append(nn.ModuleList([
                nn.LayerNorm(dim), MemoryCompressedAttention(dim, causal=causal),
                nn.LayerNorm(dim), nn.Sequential(nn.Linear(dim, dim * 2), nn.GELU(), nn.Linear(dim * 2, dim)),
            ]))
        self.to_logits = nn.Linear(dim, num_tokens)

    def forward(self, x):
        x = self.token_emb(x)
        for norm1, attn, norm2, ff in self.layers:
            x = x + attn(norm1(x))
            x = x + ff(norm2(x))
        return self.to_logits(x)
