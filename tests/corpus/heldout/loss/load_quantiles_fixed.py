# target: QuantileTrainer.fit
"""Quantile forecasts of the electric load one day ahead."""
import torch
from torch import nn

LEVELS = (0.1, 0.5, 0.9)


def load_history(days=600, seed=0):
    g = torch.Generator().manual_seed(seed)
    temperature = 12 + 10 * torch.sin(torch.arange(days) * 2 * torch.pi / 365) + 3 * torch.randn(days, generator=g)
    weekend = (torch.arange(days) % 7 >= 5).float()
    previous = torch.randn(days, generator=g)
    load = 50 - 0.8 * temperature - 6 * weekend + 2 * previous
    load = load + (1 + weekend) * torch.randn(days, generator=g)
    x = torch.stack([temperature / 10, weekend, previous], dim=1)
    return x, (load - load.mean()) / load.std()


class QuantileNet(nn.Module):
    def __init__(self, features=3, hidden=32, levels=len(LEVELS)):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(features, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.base = nn.Linear(hidden, 1)
        self.gaps = nn.Linear(hidden, levels - 1)

    def forward(self, x):
        h = self.trunk(x)
        steps = nn.functional.softplus(self.gaps(h))
        return torch.cat([self.base(h), steps], dim=1).cumsum(dim=1)


def pinball(pred, target, levels=LEVELS):
    total = pred.new_zeros(())
    for i, level in enumerate(levels):
        error = target - pred[:, i]
        total = total + torch.maximum(level * error, (level - 1) * error).mean()
    return total / len(levels)


class QuantileTrainer:
    def __init__(self, lr=5e-3, batch=64):
        torch.manual_seed(0)
        self.net = QuantileNet()
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=lr)
        self.batch = batch

    def batches(self, x, y):
        order = torch.randperm(len(x))
        for rows in order.split(self.batch):
            yield x[rows], y[rows]

    def fit(self, epochs=15):
        x, y = load_history()
        x_train, y_train, x_test, y_test = x[:500], y[:500], x[500:], y[500:]
        for _ in range(epochs):
            for xb, yb in self.batches(x_train, y_train):
                loss = pinball(self.net(xb), yb)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
        with torch.no_grad():
            q = self.net(x_test)
        inside = ((y_test >= q[:, 0]) & (y_test <= q[:, -1])).float().mean().item()
        mae = (q[:, 1] - y_test).abs().mean().item()
        return {"loss": loss.item(), "coverage": inside, "mae": mae}


if __name__ == "__main__":
    print(QuantileTrainer().fit())
