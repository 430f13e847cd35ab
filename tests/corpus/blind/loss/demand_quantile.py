# target: script
# truth: The model returns (batch, 1) and the targets are (batch,), so actual - forecast silently broadcasts to (batch,
#   batch): every forecast is compared with every target and the model learns only the overall quantile.
"""Forecast the 90% quantile of tomorrow's demand per shop from four weeks of history."""
from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


@dataclass
class Config:
    window: int = 28
    hidden: int = 32
    quantile: float = 0.9
    epochs: int = 3
    batch_size: int = 64
    lr: float = 3e-3
    seed: int = 7


class DemandWindows(Dataset):
    """Sliding windows over every series; the target is the day after the window."""

    def __init__(self, series: torch.Tensor, window: int):
        self.series = series
        self.window = window
        self.per_series = series.size(1) - window

    def __len__(self) -> int:
        return self.series.size(0) * self.per_series

    def __getitem__(self, index):
        shop, start = divmod(index, self.per_series)
        stop = start + self.window
        return self.series[shop, start:stop].unsqueeze(-1), self.series[shop, stop]


class QuantileGRU(nn.Module):
    """Reads (batch, window, 1), returns the quantile as (batch, 1)."""

    def __init__(self, hidden: int):
        super().__init__()
        self.rnn = nn.GRU(1, hidden, batch_first=True)
        self.head = nn.Linear(hidden, 1)

    def forward(self, x):
        states, _ = self.rnn(x)
        return self.head(states[:, -1])


def pinball_loss(forecast, actual, quantile):
    diff = actual - forecast
    return torch.maximum(quantile * diff, (quantile - 1) * diff).mean()


def train(cfg: Config, series: torch.Tensor, device: torch.device) -> QuantileGRU:
    loader = DataLoader(DemandWindows(series, cfg.window), batch_size=cfg.batch_size, shuffle=True)
    model = QuantileGRU(cfg.hidden).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=cfg.lr)
    for epoch in range(cfg.epochs):
        total = torch.zeros((), device=device)
        for history, actual in loader:
            history, actual = history.to(device), actual.to(device)
            loss = pinball_loss(model(history), actual, cfg.quantile)  # error: DG303
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.detach() * len(actual)
        print(f"epoch {epoch}: pinball {total.item() / len(loader.dataset):.4f}")
    return model


def main():
    cfg = Config()
    torch.manual_seed(cfg.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    level = torch.rand(20, 1) * 4
    season = 0.5 * torch.sin(torch.arange(70) * 2 * torch.pi / 7)
    train(cfg, level + season + 0.2 * torch.rand(20, 70), device)


if __name__ == "__main__":
    main()
