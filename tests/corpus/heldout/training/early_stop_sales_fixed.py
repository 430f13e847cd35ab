# target: fit
"""Forecast weekly sales with early stopping."""
import math

import torch
from torch import nn


def sales(stores=40, weeks=60, history=16, seed=0):
    g = torch.Generator().manual_seed(seed)
    t = torch.arange(weeks).float()
    season = torch.sin(2 * math.pi * t / 26 + 6 * torch.rand(stores, 1, generator=g))
    y = season + 0.5 * torch.randn(stores, weeks, generator=g)
    windows = y.unfold(1, history + 1, 1).reshape(-1, history + 1)
    return windows[:, :-1], windows[:, -1]


class Forecaster(nn.Module):
    def __init__(self, history=16, width=128):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(history, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1)
        )

    def forward(self, x):
        return self.net(x).squeeze(-1)


class EarlyStop:
    def __init__(self, patience):
        self.patience = patience
        self.best = math.inf
        self.weights = None
        self.bad = 0

    def check(self, model, value):
        """True when training should stop."""
        if value < self.best:
            self.best, self.bad = value, 0
            self.weights = {k: v.clone() for k, v in model.state_dict().items()}
        else:
            self.bad += 1
        return self.bad >= self.patience

    def restore(self, model):
        model.load_state_dict(self.weights)


@torch.no_grad()
def validate(model, x, y):
    model.eval()
    value = nn.functional.mse_loss(model(x), y).item()
    model.train()
    return value


def fit(max_epochs=60, patience=12):
    torch.manual_seed(0)
    x, y = sales(stores=6)
    xv, yv = sales(stores=20, seed=1)
    model = Forecaster()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    stop = EarlyStop(patience)
    for epoch in range(max_epochs):
        for rows in torch.randperm(len(x)).split(32):
            loss = nn.functional.mse_loss(model(x[rows]), y[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if stop.check(model, validate(model, xv, yv)):
            break
    stop.restore(model)
    print(f"stopped after {epoch + 1}, best {stop.best:.4f}, restored {validate(model, xv, yv):.4f}")
    return model


if __name__ == "__main__":
    fit()
