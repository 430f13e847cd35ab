# target: script
"""Implicit quantile network: each step draws new quantile fractions."""

import math

import torch
import torch.nn as nn


class ImplicitQuantiles(nn.Module):
    def __init__(self, features: int = 6, width: int = 16, cosines: int = 8) -> None:
        super().__init__()
        self.body = nn.Linear(features, width)
        self.phi = nn.Linear(cosines, width)
        self.out = nn.Linear(width, 1)
        self.register_buffer("frequencies", math.pi * torch.arange(1, cosines + 1).float())

    def forward(self, x: torch.Tensor, fractions: torch.Tensor) -> torch.Tensor:
        cosines = torch.cos(fractions.unsqueeze(-1) * self.frequencies)
        hidden = torch.relu(self.body(x)).unsqueeze(1) * torch.relu(self.phi(cosines))
        return self.out(hidden).squeeze(-1)


def quantile_huber(predicted: torch.Tensor, target: torch.Tensor, fractions: torch.Tensor) -> torch.Tensor:
    error = target.unsqueeze(1) - predicted
    huber = nn.functional.huber_loss(predicted, target.unsqueeze(1).expand_as(predicted), reduction="none")
    return ((fractions - (error.detach() < 0).float()).abs() * huber).mean()


def train(model: ImplicitQuantiles, loader, device: torch.device, samples: int = 8) -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for x, target in loader:
        x, target = x.to(device), target.to(device)
        fractions = torch.rand(len(x), samples, device=device)
        loss = quantile_huber(model(x, fractions), target, fractions)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    batches = [(torch.randn(8, 6), torch.randn(8)) for _ in range(3)]
    train(ImplicitQuantiles().to(device), batches, device)
