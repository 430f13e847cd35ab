from typing import Callable, List, Sequence, Tuple

import torch
import torch.nn as nn

Pair = Tuple[torch.Tensor, torch.Tensor]
LossFn = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


class FactorizationMachine(nn.Module):
    """Second-order factorization machine over dense features."""

    def __init__(self, num_features: int, rank: int = 8):
        super().__init__()
        self.linear = nn.Linear(num_features, 1)
        self.factors = nn.Parameter(torch.randn(num_features, rank) * 0.05)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        square_of_sum = (x @ self.factors).pow(2)
        sum_of_square = x.pow(2) @ self.factors.pow(2)
        pairs = 0.5 * (square_of_sum - sum_of_square).sum(dim=1)
        return self.linear(x).squeeze(1) + pairs


def fit_epoch(model: nn.Module, batches: Sequence[Pair], optimizer: torch.optim.Optimizer,
              loss_fn: LossFn, accumulate: int = 4) -> List[float]:
    """One pass over equally large micro-batches.

    Args:
        model: the network.
        batches: pairs of inputs and targets, all of one size.
        optimizer: steps once per ``accumulate`` micro-batches and at the end.
        loss_fn: mean loss of a micro-batch.
        accumulate: number of micro-batches in one step.

    Returns:
        The loss of each micro-batch.
    """
    losses: List[float] = []
    optimizer.zero_grad()
    last = len(batches) - 1
    for i, (x, y) in enumerate(batches):
        loss = loss_fn(model(x), y)
        losses.append(loss.item())
        (loss / accumulate).backward()
        if (i + 1) % accumulate == 0 or i == last:
            optimizer.step()
            optimizer.zero_grad()
    return losses
