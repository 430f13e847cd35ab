from typing import Tuple

import torch
import torch.nn as nn
import torch.nn.functional as F


def hazard_log_likelihood(hazard: torch.Tensor, event: torch.Tensor) -> torch.Tensor:
    """Log likelihood of interval-censored survival data.

    Args:
        hazard: cumulative hazard gained in each interval, positive, (batch, intervals).
        event: one where the event fell into the interval, else zero.

    Returns:
        Sum over the intervals, (batch,).
    """
    survive = -hazard
    fail = torch.log(-torch.expm1(-hazard))
    reached = 1 - event.cumsum(dim=1) + event
    return (reached * (event * fail + (1 - event) * survive)).sum(dim=1)


class HazardNet(nn.Module):
    """Piecewise constant hazards from patient covariates.

    The bias starts at a rare event rate (about one in ten million per interval).
    """

    def __init__(self, features: int, intervals: int, hidden: int = 32, base: float = 1e-7):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(features, hidden), nn.ReLU(), nn.Linear(hidden, intervals))
        nn.init.constant_(self.net[-1].bias, float(torch.tensor(base).log()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.exp(self.net(x))

    def loss(self, batch: Tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        """Mean negative log likelihood plus a roughness penalty."""
        x, event = batch
        hazard = self(x)
        rough = F.mse_loss(hazard[:, 1:], hazard[:, :-1])
        return rough - hazard_log_likelihood(hazard, event).mean()
