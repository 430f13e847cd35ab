# target: predict
"""Tabular residual network."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class ResidualBlock(nn.Module):
    def __init__(self, width, p):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)
        self.p = p

    def forward(self, x):
        hidden = F.relu(self.up(self.norm(x)))
        hidden = F.dropout(hidden, self.p, self.training)
        return x + self.down(hidden)


class TabularResNet(nn.Module):
    def __init__(self, features=9, width=16, depth=2, p=0.2):
        super().__init__()
        self.lift = nn.Linear(features, width)
        self.blocks = nn.Sequential(*[ResidualBlock(width, p) for _ in range(depth)])
        self.out = nn.Linear(width, 1)

    def forward(self, rows):
        return self.out(self.blocks(self.lift(rows))).squeeze(-1)


@torch.no_grad()
def predict(model, rows, batch_size=16):
    model.eval()
    return torch.cat([model(batch) for batch in rows.split(batch_size)])


if __name__ == "__main__":
    torch.manual_seed(0)
    print(predict(TabularResNet(), torch.randn(40, 9)).mean())
