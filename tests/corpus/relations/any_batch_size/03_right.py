"""LSTM baseline for price forecasting."""
from dataclasses import dataclass

import torch
import torch.nn as nn


@dataclass
class Config:
    n_features: int = 5
    hidden: int = 24
    layers: int = 2
    batch_size: int = 8
    horizon: int = 3


class PriceLSTM(nn.Module):
    """Forecasts from a window of daily features.

    window: (batch, days, n_features) -> (batch, horizon)
    """

    def __init__(self, cfg: Config = Config()):
        super().__init__()
        self.cfg = cfg
        self.lstm = nn.LSTM(cfg.n_features, cfg.hidden, cfg.layers, batch_first=True)
        self.norm = nn.LayerNorm(cfg.hidden)
        self.head = nn.Linear(cfg.hidden, cfg.horizon)

    def init_state(self, batch: int, like: torch.Tensor):
        shape = (self.cfg.layers, batch, self.cfg.hidden)
        return like.new_zeros(shape), like.new_zeros(shape)

    def forward(self, window: torch.Tensor) -> torch.Tensor:
        state = self.init_state(window.size(0), window)
        out, _ = self.lstm(window, state)
        return self.head(self.norm(out[:, -1]))


def mape(forecast: torch.Tensor, actual: torch.Tensor) -> torch.Tensor:
    """Mean absolute percentage error of (batch, horizon) forecasts."""
    return ((forecast - actual).abs() / actual.abs().clamp(min=1e-3)).mean()
