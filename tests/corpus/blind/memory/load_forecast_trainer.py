# target: Trainer.train_epoch
# truth: Memory grows with every step of the epoch: epoch_loss sums loss tensors that carry their autograd graph, so the graphs of all batches stay alive until the epoch ends.
"""Day-ahead electricity load forecasting: trainer used by jobs/train_load.py."""
import logging
from typing import Iterable, Optional, Tuple

import torch
from torch import Tensor, nn

logger = logging.getLogger(__name__)


class LoadForecaster(nn.Module):
    """GRU over the last week of hourly features, predicting the next `horizon` hours."""

    def __init__(self, n_features: int = 8, hidden: int = 32, horizon: int = 24):
        super().__init__()
        self.rnn = nn.GRU(n_features, hidden, batch_first=True)
        self.head = nn.Sequential(nn.Linear(hidden, 64), nn.ReLU(), nn.Linear(64, horizon))

    def forward(self, x: Tensor) -> Tensor:
        _, h = self.rnn(x)
        return self.head(h[-1])


class Trainer:
    def __init__(
        self,
        model: nn.Module,
        lr: float = 1e-3,
        grad_clip: Optional[float] = 1.0,
        device: str = "cpu",
        log_every: int = 100,
    ):
        self.device = torch.device(device)
        self.model = model.to(self.device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=lr)
        self.loss_fn = nn.SmoothL1Loss()
        self.grad_clip = grad_clip
        self.log_every = log_every
        self.history = {"train": [], "valid": []}

    def train_epoch(self, loader: Iterable[Tuple[Tensor, Tensor]]) -> float:
        self.model.train()
        epoch_loss = 0.0
        n_batches = 0
        for step, (x, y) in enumerate(loader):
            x, y = x.to(self.device), y.to(self.device)
            self.optimizer.zero_grad()
            loss = self.loss_fn(self.model(x), y)
            loss.backward()
            if self.grad_clip is not None:
                nn.utils.clip_grad_norm_(self.model.parameters(), self.grad_clip)
            self.optimizer.step()
            epoch_loss += loss  # error: DG502
            n_batches += 1
            if (step + 1) % self.log_every == 0:
                logger.info("step %d: loss %.4f", step + 1, loss.item())
        mean_loss = float(epoch_loss / n_batches)
        self.history["train"].append(mean_loss)
        return mean_loss

    @torch.no_grad()
    def validate(self, loader: Iterable[Tuple[Tensor, Tensor]]) -> float:
        self.model.eval()
        total, n = 0.0, 0
        for x, y in loader:
            x, y = x.to(self.device), y.to(self.device)
            total += self.loss_fn(self.model(x), y).item() * len(x)
            n += len(x)
        self.history["valid"].append(total / n)
        return total / n
