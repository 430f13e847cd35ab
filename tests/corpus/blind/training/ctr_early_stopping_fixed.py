# target: fit
"""CTR model with early stopping; `fit` is called by the nightly retraining job."""
import copy
from dataclasses import dataclass
from typing import Dict, List, Tuple

import torch
import torch.nn as nn
from torch.utils.data import DataLoader


@dataclass
class FitConfig:
    max_epochs: int = 50
    patience: int = 3
    lr: float = 1e-3
    weight_decay: float = 1e-6
    min_delta: float = 0.0


class FactorizationMachine(nn.Module):
    """FM over categorical fields; x holds global feature ids, (batch, n_fields)."""

    def __init__(self, n_features: int, dim: int = 16):
        super().__init__()
        self.linear = nn.Embedding(n_features, 1)
        self.factors = nn.Embedding(n_features, dim)
        self.bias = nn.Parameter(torch.zeros(1))
        nn.init.normal_(self.linear.weight, std=0.01)
        nn.init.normal_(self.factors.weight, std=0.05)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        v = self.factors(x)
        pairwise = 0.5 * (v.sum(dim=1).pow(2) - v.pow(2).sum(dim=1)).sum(dim=1)
        return self.bias + self.linear(x).sum(dim=(1, 2)) + pairwise


@torch.no_grad()
def log_loss(model: nn.Module, loader: DataLoader) -> float:
    model.eval()
    total, n = 0.0, 0
    for x, y in loader:
        total += nn.functional.binary_cross_entropy_with_logits(model(x), y, reduction="sum").item()
        n += len(y)
    return total / n


def fit(
    model: nn.Module, train_loader: DataLoader, valid_loader: DataLoader, cfg: FitConfig = FitConfig()
) -> Tuple[nn.Module, List[Dict[str, float]]]:
    """Train with early stopping and return the model with its best weights, and the history."""
    optimizer = torch.optim.Adam(model.parameters(), lr=cfg.lr, weight_decay=cfg.weight_decay)
    best_loss, best_state, bad_epochs = float("inf"), None, 0
    history: List[Dict[str, float]] = []
    for epoch in range(cfg.max_epochs):
        model.train()
        for x, y in train_loader:
            loss = nn.functional.binary_cross_entropy_with_logits(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        valid_loss = log_loss(model, valid_loader)
        history.append({"epoch": epoch, "valid": valid_loss})
        if valid_loss < best_loss - cfg.min_delta:
            best_loss, bad_epochs = valid_loss, 0
            best_state = copy.deepcopy(model.state_dict())
        else:
            bad_epochs += 1
            if bad_epochs >= cfg.patience:
                break
    if best_state is not None:
        model.load_state_dict(best_state)
    return model, history
