from typing import Callable, Iterable, Tuple

import torch
import torch.nn as nn
import torch.nn.functional as F

Batch = Tuple[torch.Tensor, torch.Tensor]


class TemporalConvNet(nn.Module):
    """Causal dilated convolutions over a univariate series."""

    def __init__(self, channels: int = 16, levels: int = 3, kernel: int = 3):
        super().__init__()
        self.kernel = kernel
        self.convs = nn.ModuleList(
            nn.Conv1d(1 if i == 0 else channels, channels, kernel, dilation=2 ** i)
            for i in range(levels)
        )
        self.readout = nn.Conv1d(channels, 1, 1)

    def forward(self, series: torch.Tensor) -> torch.Tensor:
        h = series.unsqueeze(1)
        for i, conv in enumerate(self.convs):
            pad = (self.kernel - 1) * 2 ** i
            h = torch.relu(conv(F.pad(h, (pad, 0))))
        return self.readout(h).squeeze(1)


def quantile_loss(pred: torch.Tensor, target: torch.Tensor, q: float = 0.5) -> torch.Tensor:
    """Pinball loss of the quantile ``q``."""
    diff = target - pred
    return torch.maximum(q * diff, (q - 1) * diff).mean()


def train_epoch(model: nn.Module, batches: Iterable[Batch],
                optimizer: torch.optim.Optimizer,
                on_step: Callable[[int, torch.Tensor], None] = lambda i, total: None) -> float:
    """Trains over all batches and returns the mean loss per batch.

    ``on_step`` is called after each step with its index and the running total.
    """
    model.train()
    total = torch.zeros(())
    count = 0
    for i, (past, future) in enumerate(batches):
        pred = model(past)
        loss = quantile_loss(pred, future)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total = total + loss
        count += 1
        on_step(i, total)
    return (total / max(count, 1)).item()
