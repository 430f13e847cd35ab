"""Forecasting blocks for ragged sensor series."""
from typing import Tuple

import torch
import torch.nn as nn


def masked_instance_norm(x: torch.Tensor, valid: torch.Tensor, eps: float = 1e-5) -> Tuple[torch.Tensor, ...]:
    """Standardise every channel of every series over time.

    x: (N, T, C) float; valid: (N, T) bool, False where the series was padded.
    Returns the normalised series and the statistics (N, 1, C) for undoing it.
    """
    w = valid.unsqueeze(-1).to(x.dtype)
    mean = x.mean(dim=1, keepdim=True)
    var = (x - mean).pow(2).mean(dim=1, keepdim=True)
    std = (var + eps).sqrt()
    return (x - mean) / std * w, mean, std


class RaggedForecaster(nn.Module):
    """Predicts the next ``horizon`` values of each channel from the valid history."""

    def __init__(self, length: int, channels: int, horizon: int, width: int = 64):
        super().__init__()
        self.horizon = horizon
        self.net = nn.Sequential(
            nn.Linear(length, width),
            nn.ReLU(),
            nn.Linear(width, horizon),
        )
        self.scale = nn.Parameter(torch.ones(channels))

    def forward(self, x: torch.Tensor, valid: torch.Tensor) -> torch.Tensor:
        z, mean, std = masked_instance_norm(x, valid)
        y = self.net(z.transpose(1, 2)).transpose(1, 2)
        return y * self.scale * std + mean
