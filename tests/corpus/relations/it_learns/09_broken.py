import numpy as np
import torch
from torch import nn


class TinyViT(nn.Module):
    def __init__(self, image=16, patch=4, dim=32, heads=4, classes=2):
        super().__init__()
        n = (image // patch) ** 2
        self.patchify = nn.Conv2d(1, dim, patch, stride=patch)
        self.cls = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos = nn.Parameter(torch.randn(1, n + 1, dim) * 0.02)
        self.block = nn.TransformerEncoderLayer(
            dim, heads, dim * 2, dropout=0.0, batch_first=True, norm_first=True)
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        t = self.patchify(x).flatten(2).transpose(1, 2)
        t = torch.cat([self.cls.expand(len(t), -1, -1), t], dim=1) + self.pos
        return self.head(self.block(t)[:, 0])


def bars(n, size=16, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(0, 0.1, size=(n, 1, size, size)).astype(np.float32)
    y = rng.integers(0, 2, size=n)
    for i in range(n):
        k = rng.integers(2, size - 2)
        if y[i]:
            x[i, 0, k] += 1.0
        else:
            x[i, 0, :, k] += 1.0
    return torch.from_numpy(x), torch.from_numpy(y)


def train(model, x, y, steps=30, lr=2e-3, max_norm=1.0):
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.01)
    curve = []
    for _ in range(steps):
        loss = criterion(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        optimizer.zero_grad()
        optimizer.step()
        curve.append(loss.item())
    return curve


def main():
    torch.manual_seed(0)
    curve = train(TinyViT(), *bars(48))
    print("loss", [round(c, 4) for c in curve[::6]])


if __name__ == "__main__":
    main()
