import math

import torch
import torch.nn as nn


def masked_attention(q, k, v, key_mask):
    """q, k, v: (B, H, T, D); key_mask: (B, T) with 1 for real tokens and 0 for padding."""
    scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(q.size(-1))
    m = key_mask[:, None, None, :]
    scores = scores.masked_fill(m == 0, torch.finfo(scores.dtype).min)
    weights = scores.softmax(dim=-1)
    return torch.matmul(weights, v)


class SelfAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim)

    def forward(self, x, mask):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        y = masked_attention(q, k, v, mask)
        return self.out(y.transpose(1, 2).reshape(b, t, d))


class Tagger(nn.Module):
    def __init__(self, vocab=200, dim=32, heads=4, tags=9):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim, padding_idx=0)
        self.attn = SelfAttention(dim, heads)
        self.norm = nn.LayerNorm(dim)
        self.cls = nn.Linear(dim, tags)

    def forward(self, ids, mask):
        x = self.emb(ids)
        x = self.norm(x + self.attn(x, mask))
        return self.cls(x)


def main():
    torch.manual_seed(0)
    model = Tagger().eval()
    lengths = torch.tensor([9, 6, 4, 2])
    mask = (torch.arange(9)[None, :] < lengths[:, None]).long()
    ids = torch.randint(1, 200, (4, 9)) * mask
    with torch.no_grad():
        tags = model(ids, mask).argmax(-1)
    for row, n in zip(tags, lengths):
        print(row[:n].tolist())


if __name__ == "__main__":
    main()
