from typing import Optional

import torch
import torch.nn as nn


class HiddenMarkovModel(nn.Module):
    """Discrete hidden Markov model with learnable tables.

    Args:
        states: number of hidden states.
        symbols: number of observed symbols.
        stickiness: added to the diagonal of the initial transition scores.
    """

    def __init__(self, states: int, symbols: int, stickiness: float = 1.0):
        super().__init__()
        self.start = nn.Parameter(torch.zeros(states))
        self.transition = nn.Parameter(
            torch.randn(states, states) * 0.1 + stickiness * torch.eye(states))
        self.emission = nn.Parameter(torch.randn(states, symbols) * 0.5)

    def log_prob(self, observed: torch.Tensor) -> torch.Tensor:
        """Log likelihood of symbol sequences (batch, time)."""
        start = self.start.softmax(dim=0)
        transition = self.transition.softmax(dim=1)
        emission = self.emission.softmax(dim=1).t()
        alpha = start * emission[observed[:, 0]]
        for t in range(1, observed.shape[1]):
            alpha = (alpha @ transition) * emission[observed[:, t]]
        return torch.log(alpha.sum(dim=1))

    def forward(self, observed: torch.Tensor) -> torch.Tensor:
        """Mean negative log likelihood per symbol."""
        return -self.log_prob(observed).mean() / observed.shape[1]


def fit(model: HiddenMarkovModel, observed: torch.Tensor, steps: int = 50, lr: float = 0.05,
        weight_decay: Optional[float] = None) -> float:
    """Maximum likelihood by gradient descent; returns the last loss."""
    optimizer = torch.optim.Adam(model.parameters(), lr=lr, weight_decay=weight_decay or 0.0)
    loss = torch.zeros(())
    for _ in range(steps):
        loss = model(observed)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()
