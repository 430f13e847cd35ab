# target: Allocator.train
"""Learn a rule of allocation by the Sharpe ratio of its own return path."""
import math

import torch
from torch import nn


def market(days=240, assets=6, seed=2):
    g = torch.Generator().manual_seed(seed)
    signal = torch.randn(days, assets, generator=g)
    drift = 0.004 * signal.roll(1, 0)
    returns = drift + 0.01 * torch.randn(days, assets, generator=g)
    return signal[:-1], returns[1:]


class Policy(nn.Module):
    def __init__(self, assets, hidden=16):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(assets, hidden), nn.Tanh(), nn.Linear(hidden, assets))

    def forward(self, signal):
        return torch.tanh(self.body(signal))


class Allocator:
    def __init__(self, assets=6, cost=1e-3, lr=1e-2):
        torch.manual_seed(0)
        self.policy = Policy(assets)
        self.cost = cost
        self.optimizer = torch.optim.Adam(self.policy.parameters(), lr=lr)

    def path(self, signal, returns):
        """Daily portfolio returns and the weights that gave them."""
        daily, weights = [], []
        for day in range(0, len(signal), 6):
            w = self.policy(signal[day:day + 6])
            daily.append((w * returns[day:day + 6]).sum(1).mean())
            weights.append(w)
        return daily, torch.cat(weights)

    @staticmethod
    def sharpe(daily):
        path = torch.stack(list(daily))
        return path.mean() / (path.std() + 1e-8) * math.sqrt(252 / 6)

    def objective(self, signal, returns):
        daily, weights = self.path(signal, returns)
        turnover = (weights[1:] - weights[:-1]).abs().sum(1).mean()
        ratio = self.sharpe(daily)
        return -ratio + self.cost * turnover, ratio

    def train(self, epochs=25):
        signal, returns = market()
        history = []
        for _ in range(epochs):
            self.optimizer.zero_grad()
            loss, ratio = self.objective(signal, returns)
            loss.backward()
            self.optimizer.step()
            history.append(ratio.item())
        return history


if __name__ == "__main__":
    h = Allocator().train()
    print(f"sharpe: first {h[0]:.2f}, last {h[-1]:.2f}")
