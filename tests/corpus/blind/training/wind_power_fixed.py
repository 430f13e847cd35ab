# target: fit
"""Wind-power forecasting: hourly output of a farm from weather features."""
import math
from typing import List, Tuple

import torch
from torch import Tensor, nn


def simulate_farm(hours: int = 1024, seed: int = 3) -> Tuple[Tensor, Tensor]:
    gen = torch.Generator().manual_seed(seed)
    t = torch.arange(hours).float()
    speed = 8 + 3 * torch.sin(2 * math.pi * t / 24) + torch.randn(hours, generator=gen)
    direction = torch.rand(hours, generator=gen) * 2 * math.pi
    temperature = 10 + 5 * torch.cos(2 * math.pi * t / 24) + torch.randn(hours, generator=gen)
    power = 1 / (1 + torch.exp(-(speed - 8))) * (1 + 0.1 * torch.cos(direction))
    features = torch.stack([speed / 10, direction.cos(), direction.sin(), temperature / 20], dim=1)
    return features, power


class PowerCurve(nn.Module):
    def __init__(self, n_features: int = 4, hidden: int = 32):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(n_features, hidden),
            nn.GELU(),
            nn.Linear(hidden, hidden),
            nn.GELU(),
            nn.Linear(hidden, 1),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x).squeeze(-1)


def minibatches(x: Tensor, y: Tensor, size: int):
    order = torch.randperm(len(x))
    for idx in order.split(size):
        yield x[idx], y[idx]


def fit(model: nn.Module, x: Tensor, y: Tensor, epochs: int = 20, batch_size: int = 64, lr: float = 0.05) -> List[float]:
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    loss_fn = nn.MSELoss()
    curve = []
    model.train()
    for _ in range(epochs):
        epoch_loss = 0.0
        for xb, yb in minibatches(x, y, batch_size):
            loss = loss_fn(model(xb), yb)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            epoch_loss += loss.item() * len(xb)
        curve.append(epoch_loss / len(x))
    return curve


if __name__ == "__main__":
    torch.manual_seed(0)
    curve = fit(PowerCurve(), *simulate_farm())
    print(" ".join(f"{v:.4f}" for v in curve))
