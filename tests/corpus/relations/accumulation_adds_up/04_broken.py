from dataclasses import dataclass
from typing import Iterable, Tuple

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class LoopConfig:
    """Settings of the loop."""

    lr: float = 1e-3
    clip: float = 0.5
    micro_batches: int = 4
    weight_decay: float = 0.0


class SeriesForecaster(nn.Module):
    """LSTM that predicts the next ``horizon`` values of a series."""

    def __init__(self, hidden: int = 32, horizon: int = 4):
        super().__init__()
        self.lstm = nn.LSTM(1, hidden, batch_first=True)
        self.out = nn.Linear(hidden, horizon)

    def forward(self, series: torch.Tensor) -> torch.Tensor:
        _, (h, _) = self.lstm(series.unsqueeze(-1))
        return self.out(h[-1])


class AccumulatingLoop:
    """Optimises a forecaster with batches that are cut into micro-batches."""

    def __init__(self, model: nn.Module, config: LoopConfig):
        self.model = model
        self.config = config
        self.optimizer = torch.optim.SGD(
            model.parameters(), lr=config.lr, weight_decay=config.weight_decay)

    def update(self, past: torch.Tensor, future: torch.Tensor) -> float:
        """One optimizer step on a batch whose size the micro-batches divide."""
        k = self.config.micro_batches
        if len(past) % k:
            raise ValueError(f"batch of {len(past)} cannot be cut into {k} equal parts")
        self.optimizer.zero_grad()
        total = 0.0
        for x, y in zip(past.chunk(k), future.chunk(k)):
            loss = F.huber_loss(self.model(x), y) / k
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip)
            total += loss.item()
        self.optimizer.step()
        return total

    def run(self, batches: Iterable[Tuple[torch.Tensor, torch.Tensor]]) -> float:
        """Updates on every batch; returns the mean loss."""
        losses = [self.update(past, future) for past, future in batches]
        return sum(losses) / max(len(losses), 1)
