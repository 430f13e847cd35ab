"""Recurrent load forecaster."""
from typing import Optional

import torch
import torch.nn as nn


class LoadForecaster(nn.Module):
    """One step ahead forecast for every hour of a series.

    load: (series, hours, 1), calendar: (series, hours, 4) -> (series, hours)
    """

    def __init__(self, hidden: int = 20):
        super().__init__()
        self.rnn = nn.GRU(5, hidden, batch_first=True)
        self.out = nn.Linear(hidden, 1)
        self.hidden: Optional[torch.Tensor] = None

    def forward(self, load: torch.Tensor, calendar: torch.Tensor) -> torch.Tensor:
        x = torch.cat([load, calendar], dim=-1)
        if self.hidden is None or self.hidden.size(1) != x.size(0):
            self.hidden = x.new_zeros(1, x.size(0), self.rnn.hidden_size)
        y, h = self.rnn(x, self.hidden)
        self.hidden = h.detach()
        return load.squeeze(-1) + self.out(y).squeeze(-1)


def pinball(forecast: torch.Tensor, actual: torch.Tensor, q: float = 0.5) -> torch.Tensor:
    """Quantile loss of forecasts (series, hours)."""
    err = actual - forecast
    return torch.maximum(q * err, (q - 1) * err).mean()
