"""Discrete time survival analysis."""
import torch
import torch.nn as nn


def survival_curve(hazard: torch.Tensor) -> torch.Tensor:
    """Probability to survive up to and including each interval.

    hazard: (patients, intervals) in (0, 1). Returns (patients, intervals).
    """
    return torch.cumprod(1.0 - hazard, dim=1)


class HazardNet(nn.Module):
    """Covariates (patients, features) to hazards (patients, intervals)."""

    def __init__(self, features: int = 10, intervals: int = 12, hidden: int = 32):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(features, hidden),
            nn.SELU(),
            nn.Linear(hidden, intervals),
        )

    def forward(self, covariates: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(self.net(covariates))

    def predict_survival(self, covariates: torch.Tensor) -> torch.Tensor:
        """Survival curve for every patient, (patients, intervals)."""
        return survival_curve(self.forward(covariates))


def expected_lifetime(hazard: torch.Tensor) -> torch.Tensor:
    """Expected number of survived intervals, (patients,)."""
    return survival_curve(hazard).sum(dim=-1)
