# target: script
"""Self-attention that drops whole source positions, the same for all heads."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class PositionDropAttention(nn.Module):
    def __init__(self, width, heads, drop=0.1):
        super().__init__()
        self.heads = heads
        self.drop = drop
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        weights = F.softmax(scores, dim=-1)
        if self.training:
            keep = torch.rand(batch, 1, 1, length, device=x.device) >= self.drop
            weights = weights * (keep / (1 - self.drop))
        mixed = (weights @ v).transpose(1, 2).reshape(batch, length, width)
        return self.out(mixed)


class Regressor(nn.Module):
    def __init__(self, width=24, heads=4):
        super().__init__()
        self.attention = PositionDropAttention(width, heads, drop=0.2)
        self.head = nn.Linear(width, 1)

    def forward(self, x):
        return self.head(x + self.attention(x)).mean(dim=1).squeeze(-1)


def main():
    torch.manual_seed(3)
    model = Regressor()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    series, target = torch.randn(16, 12, 24), torch.randn(16)
    for _ in range(5):
        optimizer.zero_grad()
        loss = F.smooth_l1_loss(model(series), target)
        loss.backward()
        optimizer.step()
    print("done")


if __name__ == "__main__":
    main()
