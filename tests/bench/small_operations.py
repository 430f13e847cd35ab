"""Programs whose operations take no time of their own, so that what is done for each operation shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

COUNT, WIDTH, LENGTH, BATCH = 2000, 16, 32, 4


def tiny_operations(device: str) -> Callable[[], Tensor]:
    """Return 2,000 additions and multiplications, one after the other."""
    x = torch.ones(8, device=device)

    def step() -> Tensor:
        y = x
        for _ in range(COUNT // 2):
            y = y * 0.5
            y = y + x
        return y

    return step


def lstm_step(device: str) -> Callable[[], Tensor]:
    """Return a training step of an LSTM whose cell is written in Python."""
    gates, head = nn.Linear(2 * WIDTH, 4 * WIDTH).to(device), nn.Linear(WIDTH, WIDTH).to(device)
    optimizer: Any = torch.optim.SGD([*gates.parameters(), *head.parameters()], lr=0.1)
    x = torch.randn(LENGTH, BATCH, WIDTH, device=device)

    def step() -> Tensor:
        optimizer.zero_grad()
        hidden = cell = torch.zeros(BATCH, WIDTH, device=device)
        for word in x:
            i, f, g, o = gates(torch.cat((word, hidden), 1)).chunk(4, 1)
            cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
            hidden = torch.sigmoid(o) * torch.tanh(cell)
        loss: Any = F.mse_loss(head(hidden), x[-1])
        loss.backward()
        optimizer.step()
        return loss

    return step
