"""Metric learning with batch-hard triplets."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def pairwise(a, b):
    gap = a[:, None, :] - b[None, :, :]
    return gap.pow(2).sum(dim=-1).clamp(min=1e-12).sqrt()


class Embedder(nn.Module):
    def __init__(self, dim_in, dim=8):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim_in, 32), nn.ReLU(), nn.Linear(32, dim))

    def forward(self, x):
        return self.net(x)


def triplet_loss(anchor, positive, negative, margin=0.5):
    near = pairwise(anchor, positive).diagonal()
    far = pairwise(anchor, negative).amin(dim=1)
    return F.relu(near - far + margin).mean()


def views(n, dim=10, classes=4):
    label = torch.randint(0, classes, (n,))
    base = F.one_hot(label, classes).float() @ torch.ones(classes, dim).cumsum(0)
    other = (label + 1) % classes
    shifted = F.one_hot(other, classes).float() @ torch.ones(classes, dim).cumsum(0)
    noise = lambda: 0.3 * torch.randn(n, dim)
    return base + noise(), base + noise(), shifted + noise()


def main():
    torch.manual_seed(0)
    model = Embedder(10)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for step in range(30):
        a, p, n = views(32)
        loss = triplet_loss(model(a), model(p), model(n))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
