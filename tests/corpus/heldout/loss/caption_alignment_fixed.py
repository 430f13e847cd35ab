# target: align
"""Align satellite tiles with their captions by a symmetric contrastive objective."""
import math

import torch
import torch.nn.functional as F
from torch import nn


class TileEncoder(nn.Module):
    def __init__(self, channels, dim):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(channels, 16, 3, stride=2, padding=1), nn.GELU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.GELU(),
            nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(128, dim),
        )

    def forward(self, x):
        return self.net(x)


class CaptionEncoder(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.bag = nn.EmbeddingBag(vocab, 32, mode="mean")
        self.proj = nn.Linear(32, dim)

    def forward(self, ids):
        return self.proj(F.gelu(self.bag(ids)))


class DualEncoder(nn.Module):
    def __init__(self, channels=4, vocab=64, dim=32):
        super().__init__()
        self.tiles = TileEncoder(channels, dim)
        self.captions = CaptionEncoder(vocab, dim)
        self.logit_scale = nn.Parameter(torch.tensor(math.log(1 / 0.07)))

    def similarity(self, tiles, captions):
        a = F.normalize(self.tiles(tiles), dim=-1)
        b = F.normalize(self.captions(captions), dim=-1)
        return self.logit_scale.exp() * a @ b.T

    def forward(self, tiles, captions):
        logits = self.similarity(tiles, captions)
        target = torch.arange(len(logits), device=logits.device)
        loss = (F.cross_entropy(logits, target) + F.cross_entropy(logits.T, target)) / 2
        return loss, (logits.argmax(1) == target).float().mean()


def pairs(n, generator, vocab=64, words=5):
    """Each word adds a pattern of its own to the tile."""
    patterns = torch.randn(vocab, 4, 16, 16, generator=torch.Generator().manual_seed(99))
    ids = torch.randint(0, vocab, (n, words), generator=generator)
    tiles = patterns[ids].mean(1) * 2 + 0.1 * torch.randn(n, 4, 16, 16, generator=generator)
    return tiles, ids


def align(steps=61, batch=32):
    torch.manual_seed(0)
    g = torch.Generator().manual_seed(1)
    model = DualEncoder()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    for step in range(steps):
        loss, top1 = model(*pairs(batch, g))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 0 or step == steps - 1:
            print(f"{step:4d} loss {loss.item():.3f} top1 {top1.item():.3f}")
    return model


if __name__ == "__main__":
    align()
