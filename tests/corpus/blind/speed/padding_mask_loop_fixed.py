# target: get_padding_mask
# source: https://github.com/NVIDIA/TransformerEngine/pull/3268
# truth: none, the repaired twin of padding_mask_loop.py
import time

import torch
import torch.nn.functional as F
from torch import nn


def cu_seqlens_from_lengths(lengths):
    return F.pad(lengths.cumsum(0), (1, 0))


def get_padding_mask(batch_size, cu_seqlens, max_seqlen):
    """True where a position is padding: (batch, 1, 1, max_seqlen)."""
    seqlens = cu_seqlens[1:] - cu_seqlens[:-1]
    attention_mask = torch.arange(max_seqlen, device=cu_seqlens.device) >= seqlens.unsqueeze(1)
    return attention_mask[:, None, None, :]


class UnfusedAttention(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(hidden, 3 * hidden)
        self.proj = nn.Linear(hidden, hidden)

    def forward(self, x, cu_seqlens):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        mask = get_padding_mask(b, cu_seqlens, t)
        scores = (q @ k.transpose(-1, -2)) * (d // self.heads) ** -0.5
        probs = scores.masked_fill(mask, -1e4).softmax(-1)
        return self.proj((probs @ v).transpose(1, 2).reshape(b, t, d))


class TinyEncoder(nn.Module):
    def __init__(self, vocab=100, hidden=16, heads=2, layers=3, classes=2):
        super().__init__()
        self.emb = nn.Embedding(vocab, hidden)
        self.layers = nn.ModuleList([UnfusedAttention(hidden, heads) for _ in range(layers)])
        self.norms = nn.ModuleList([nn.LayerNorm(hidden) for _ in range(layers)])
        self.head = nn.Linear(hidden, classes)

    def forward(self, ids, cu_seqlens):
        x = self.emb(ids)
        for att, norm in zip(self.layers, self.norms):
            x = x + att(norm(x), cu_seqlens)
        return self.head(x[:, 0])


def batch(size, device, max_len=48):
    lengths = torch.randint(4, max_len + 1, (size,), device=device)
    ids = torch.randint(1, 100, (size, max_len), device=device)
    label = (ids[:, 0] > 50).long()
    return ids, cu_seqlens_from_lengths(lengths), label


def main(steps=12, size=256):
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = TinyEncoder().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    start = time.perf_counter()
    for step in range(steps):
        ids, cu, label = batch(size, device)
        loss = F.cross_entropy(model(ids, cu), label)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
    print(f"loss {loss.item():.3f}  {1e3 * (time.perf_counter() - start) / steps:.1f} ms per step")


if __name__ == "__main__":
    main()
