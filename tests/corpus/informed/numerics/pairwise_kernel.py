# target: script
# truth: The distance of a point to itself is sqrt(0), whose gradient is infinite; times the zero of the square it is
#   NaN, and all embeddings are NaN after one step.
"""Metric learning with a hand-written distance matrix."""

import torch
from torch import nn


def distances(embeddings: torch.Tensor) -> torch.Tensor:
    difference = embeddings[:, None, :] - embeddings[None, :, :]
    return difference.pow(2).sum(dim=-1).sqrt()  # error: DG407|DG410


def triplet_loss(embeddings: torch.Tensor, labels: torch.Tensor, margin: float = 0.3) -> torch.Tensor:
    """Batch-hard: the farthest positive, the nearest negative."""
    matrix = distances(embeddings)
    same = labels[:, None] == labels[None, :]
    positive = (matrix * same).amax(dim=1)
    negative = matrix.masked_fill(same, 1e6).amin(dim=1)
    return torch.relu(positive - negative + margin).mean() + 0.01 * matrix.mean()


class Embedder(nn.Module):
    def __init__(self, features: int = 12, size: int = 8):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(features, 32), nn.ReLU(), nn.Linear(32, size))

    def forward(self, x):
        return self.net(x)


def main():
    torch.manual_seed(0)
    model = Embedder()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(3):
        x, labels = torch.randn(12, 12), torch.arange(12) % 4
        optimizer.zero_grad()
        loss = triplet_loss(model(x), labels)
        loss.backward()
        optimizer.step()
        print(loss.item())


if __name__ == "__main__":
    main()
