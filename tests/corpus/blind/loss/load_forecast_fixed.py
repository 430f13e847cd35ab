# target: train_epoch
"""Day-ahead electricity load forecasting from a sliding window."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class LoadWindows(Dataset):
    """Windows of hourly load; the target is the load one hour after the window."""

    def __init__(self, series: torch.Tensor, window: int = 48):
        self.series = (series - series.mean()) / series.std()
        self.window = window

    def __len__(self) -> int:
        return len(self.series) - self.window

    def __getitem__(self, i: int):
        x = self.series[i : i + self.window].unsqueeze(-1)
        y = self.series[i + self.window]
        return x, y


class LoadGRU(nn.Module):
    def __init__(self, hidden: int = 32):
        super().__init__()
        self.gru = nn.GRU(1, hidden, batch_first=True)
        self.head = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        _, h = self.gru(x)
        return self.head(h[-1])


def synthetic_load(hours: int = 24 * 28) -> torch.Tensor:
    t = torch.arange(hours, dtype=torch.float32)
    daily = torch.sin(2 * math.pi * t / 24)
    weekly = 0.4 * torch.sin(2 * math.pi * t / 168)
    return 50 + 10 * (daily + weekly) + torch.randn(hours)


def train_epoch(model: LoadGRU, loader: DataLoader, optimizer: torch.optim.Optimizer) -> float:
    model.train()
    total = 0.0
    for x, y in loader:
        pred = model(x)
        loss = F.mse_loss(pred.squeeze(-1), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(y)
    return total / len(loader.dataset)


def run(epochs: int = 3):
    torch.manual_seed(0)
    loader = DataLoader(LoadWindows(synthetic_load()), batch_size=64, shuffle=True)
    model = LoadGRU()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    losses = [train_epoch(model, loader, optimizer) for _ in range(epochs)]
    return model, losses


if __name__ == "__main__":
    print(run()[1])
