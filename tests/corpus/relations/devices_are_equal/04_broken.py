import math
from typing import Sequence

import torch
import torch.nn as nn
import torch.nn.functional as F


class NoisyLinear(nn.Module):
    """Linear layer with factorised Gaussian noise for exploration.

    Args:
        in_features: size of the input.
        out_features: size of the output.
        sigma: initial scale of the noise.
    """

    def __init__(self, in_features: int, out_features: int, sigma: float = 0.5):
        super().__init__()
        bound = 1 / math.sqrt(in_features)
        self.in_features, self.out_features = in_features, out_features
        self.weight = nn.Parameter(torch.empty(out_features, in_features).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(out_features).uniform_(-bound, bound))
        self.weight_sigma = nn.Parameter(torch.full((out_features, in_features), sigma * bound))
        self.bias_sigma = nn.Parameter(torch.full((out_features,), sigma * bound))

    def _noise(self, size: int) -> torch.Tensor:
        x = torch.randn(size, device="cpu")
        return x.sign() * x.abs().sqrt()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.training:
            return F.linear(x, self.weight, self.bias)
        rows, cols = self._noise(self.out_features), self._noise(self.in_features)
        weight = self.weight + self.weight_sigma * torch.outer(rows, cols)
        return F.linear(x, weight, self.bias + self.bias_sigma * rows)


class RainbowHead(nn.Module):
    """Distributional dueling head with noisy layers."""

    def __init__(self, features: int, actions: int, atoms: int = 21,
                 support: Sequence[float] = (-10.0, 10.0)):
        super().__init__()
        self.actions, self.atoms = actions, atoms
        self.value = NoisyLinear(features, atoms)
        self.advantage = NoisyLinear(features, actions * atoms)
        self.register_buffer("support", torch.linspace(support[0], support[1], atoms))

    def forward(self, h: torch.Tensor) -> torch.Tensor:
        """Expected return of each action."""
        value = self.value(h).unsqueeze(1)
        advantage = self.advantage(h).view(-1, self.actions, self.atoms)
        logits = value + advantage - advantage.mean(dim=1, keepdim=True)
        return (logits.softmax(dim=-1) * self.support).sum(dim=-1)
