"""Uncertainty estimates with Monte Carlo dropout."""
from typing import Tuple

import torch
import torch.nn as nn


class DropoutRegressor(nn.Module):
    """Features (batch, d_in) to a prediction (batch, 1)."""

    def __init__(self, d_in: int = 6, hidden: int = 32, p: float = 0.2):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(d_in, hidden),
            nn.ReLU(),
            nn.Dropout(p),
            nn.Linear(hidden, hidden),
            nn.ReLU(),
            nn.Dropout(p),
            nn.Linear(hidden, 1),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x)


@torch.no_grad()
def mc_predict(model: nn.Module, x: torch.Tensor, draws: int = 10) -> Tuple[torch.Tensor, torch.Tensor]:
    """Mean and standard deviation over stochastic forward passes.

    model: any module with dropout layers, in evaluation mode; x: (batch, d_in).
    Returns two tensors (batch, 1).
    """
    layers = [m for m in model.modules() if isinstance(m, nn.Dropout)]
    for layer in layers:
        layer.train()
    samples = torch.stack([model(x) for _ in range(draws)])
    return samples.mean(dim=0), samples.std(dim=0)
