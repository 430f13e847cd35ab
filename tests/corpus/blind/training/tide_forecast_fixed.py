# target: script
"""Causal convolutions for one-step tide forecasts."""
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Settings:
    context: int = 32
    width: int = 16
    epochs: int = 6
    batch_size: int = 32
    max_lr: float = 1e-2
    weight_decay: float = 1e-3


def tide(n):
    hours = torch.arange(n, dtype=torch.float32)
    level = torch.sin(2 * torch.pi * hours / 12.42) + 0.4 * torch.sin(2 * torch.pi * hours / 24.0 + 0.7)
    return level + 0.05 * torch.randn(n)


def windows(series, context):
    """All (context, next value) pairs of a series."""
    x = series.unfold(0, context, 1)[:-1]
    return TensorDataset(x.clone(), series[context:].clone())


class CausalNet(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layers = nn.ModuleList(
            [nn.Conv1d(1 if i == 0 else width, width, 3, dilation=2 ** i) for i in range(3)]
        )
        self.out = nn.Linear(width, 1)

    def forward(self, x):
        h = x.unsqueeze(1)
        for i, conv in enumerate(self.layers):
            h = F.gelu(conv(F.pad(h, (2 * 2 ** i, 0))))
        return self.out(h[:, :, -1]).squeeze(-1)


class Forecasting:
    def __init__(self, settings):
        self.s = settings
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        series = tide(1000)
        self.train_loader = DataLoader(
            windows(series[:800], settings.context), batch_size=settings.batch_size, shuffle=True
        )
        self.valid_loader = DataLoader(windows(series[800:], settings.context), batch_size=256)
        self.model = CausalNet(settings.width).to(self.device)
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=settings.max_lr, weight_decay=settings.weight_decay
        )
        self.scheduler = torch.optim.lr_scheduler.OneCycleLR(
            self.optimizer, settings.max_lr, epochs=settings.epochs, steps_per_epoch=len(self.train_loader)
        )

    def fit(self):
        for _ in range(self.s.epochs):
            self.model.train()
            for x, y in self.train_loader:
                loss = F.mse_loss(self.model(x.to(self.device)), y.to(self.device))
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                self.scheduler.step()

    @torch.no_grad()
    def valid_error(self):
        self.model.eval()
        total, count = torch.zeros((), device=self.device), 0
        for x, y in self.valid_loader:
            total += (self.model(x.to(self.device)) - y.to(self.device)).abs().sum()
            count += len(y)
        return (total / count).item()


if __name__ == "__main__":
    torch.manual_seed(0)
    run = Forecasting(Settings())
    run.fit()
    print(f"validation MAE {run.valid_error():.4f}")
