# target: script
"""Character-level language model trained in mixed precision."""
import argparse
import math

import torch
import torch.nn.functional as F
from torch import nn

TEXT = "the quick brown fox jumps over the lazy dog and the dog does not mind at all. " * 40


class CausalAttention(nn.Module):
    def __init__(self, dim, heads, context):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        future = torch.ones(context, context, dtype=torch.bool).triu(1)
        self.register_buffer("future", future, persistent=False)

    def forward(self, x):
        batch, time, dim = x.shape
        qkv = self.qkv(x).view(batch, time, 3, self.heads, dim // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        scores = scores.masked_fill(self.future[:time, :time], torch.finfo(scores.dtype).min)
        mixed = scores.softmax(dim=-1) @ v
        return self.out(mixed.transpose(1, 2).reshape(batch, time, dim))


class Block(nn.Module):
    def __init__(self, dim, heads, context):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attention = CausalAttention(dim, heads, context)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class CharModel(nn.Module):
    def __init__(self, vocab, dim=48, heads=4, depth=2, context=32):
        super().__init__()
        self.chars = nn.Embedding(vocab, dim)
        self.places = nn.Embedding(context, dim)
        self.blocks = nn.Sequential(*(Block(dim, heads, context) for _ in range(depth)))
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids):
        places = torch.arange(ids.size(1), device=ids.device)
        return self.head(self.blocks(self.chars(ids) + self.places(places)))


def main(argv=None):
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=40)
    ap.add_argument("--batch", type=int, default=16)
    ap.add_argument("--context", type=int, default=32)
    ap.add_argument("--full-precision", action="store_true")
    args = ap.parse_args(argv)
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    letters = sorted(set(TEXT))
    data = torch.tensor([letters.index(c) for c in TEXT], device=device)
    model = CharModel(len(letters), context=args.context).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    mixed = not args.full_precision
    scaler = torch.amp.GradScaler(device.type, enabled=mixed)
    for step in range(args.steps):
        start = torch.randint(0, len(data) - args.context, (args.batch, 1), device=device)
        window = data[start + torch.arange(args.context + 1, device=device)]
        with torch.autocast(device.type, dtype=torch.float16, enabled=mixed):
            logits = model(window[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), window[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        if step % 10 == 0:
            print(f"step {step} loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
