# target: fit
"""Molecular property regression on fingerprints + descriptors."""
from typing import Dict, List

import torch
from torch import nn
import torch.nn.functional as F


class PropertyNet(nn.Module):
    """Two-branch MLP: hashed fingerprint bits and a few continuous descriptors."""

    def __init__(self, n_bits: int, n_desc: int, hidden: int = 64, dropout: float = 0.1):
        super().__init__()
        self.bits = nn.Linear(n_bits, hidden)
        self.desc = nn.Sequential(nn.BatchNorm1d(n_desc), nn.Linear(n_desc, hidden))
        self.head = nn.Sequential(nn.ReLU(), nn.Dropout(dropout), nn.Linear(2 * hidden, 1))

    def forward(self, bits: torch.Tensor, desc: torch.Tensor) -> torch.Tensor:
        return self.head(torch.cat([self.bits(bits.float()), self.desc(desc)], dim=-1))


class TargetScaler:
    def __init__(self, y: torch.Tensor):
        self.mean, self.std = y.mean(), y.std().clamp(min=1e-6)

    def transform(self, y):
        return (y - self.mean) / self.std

    def inverse(self, y):
        return y * self.std + self.mean


@torch.no_grad()
def r2_score(model: PropertyNet, scaler: TargetScaler, data: Dict[str, torch.Tensor]) -> float:
    model.eval()
    pred = scaler.inverse(model(data["bits"], data["desc"]).squeeze(-1))
    ss_res = (data["y"] - pred).pow(2).sum()
    ss_tot = (data["y"] - data["y"].mean()).pow(2).sum()
    return (1 - ss_res / ss_tot).item()


def fit(model: PropertyNet, train: Dict[str, torch.Tensor], valid: Dict[str, torch.Tensor],
        epochs: int = 30, batch_size: int = 64, lr: float = 1e-3) -> List[float]:
    """Train on ``train`` (keys: bits (N, n_bits), desc (N, n_desc), y (N,)).

    Returns the validation R2 after each epoch.
    """
    scaler = TargetScaler(train["y"])
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    scores = []
    for _ in range(epochs):
        model.train()
        order = torch.randperm(train["y"].numel())
        for idx in order.split(batch_size):
            if idx.numel() < 2:  # batch norm needs more than one sample
                continue
            pred = model(train["bits"][idx], train["desc"][idx])
            loss = F.mse_loss(pred.squeeze(-1), scaler.transform(train["y"][idx]))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        scores.append(r2_score(model, scaler, valid))
    return scores
