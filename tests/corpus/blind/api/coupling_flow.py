# target: fit_flow
# truth: The coupling layers sit in a plain Python list, so model.parameters() yields only the base scale and shift; the optimizer never updates the couplings and the likelihood hardly improves, without any error.
"""RealNVP density estimation for tabular scientific data."""
import math
from typing import List, Tuple

import torch
from torch import nn


class AffineCoupling(nn.Module):
    def __init__(self, dim: int, hidden: int, flip: bool):
        super().__init__()
        mask = (torch.arange(dim) % 2).float()
        self.register_buffer("mask", 1 - mask if flip else mask)
        self.net = nn.Sequential(
            nn.Linear(dim, hidden), nn.ReLU(),
            nn.Linear(hidden, hidden), nn.ReLU(),
            nn.Linear(hidden, 2 * dim),
        )

    def forward(self, x: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
        shift, log_scale = self.net(x * self.mask).chunk(2, dim=-1)
        free = 1 - self.mask
        log_scale = torch.tanh(log_scale) * free
        return x * log_scale.exp() + shift * free, log_scale.sum(dim=-1)


class RealNVP(nn.Module):
    def __init__(self, dim: int, n_layers: int = 6, hidden: int = 64):
        super().__init__()
        self.loc = nn.Parameter(torch.zeros(dim))
        self.log_scale = nn.Parameter(torch.zeros(dim))
        self.couplings = [AffineCoupling(dim, hidden, flip=bool(i % 2)) for i in range(n_layers)]  # error: DG741

    def forward(self, x: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
        logdet = x.new_zeros(x.size(0))
        z = x
        for coupling in self.couplings:
            z, ld = coupling(z)
            logdet = logdet + ld
        z = (z - self.loc) * torch.exp(-self.log_scale)
        return z, logdet - self.log_scale.sum()

    def log_prob(self, x: torch.Tensor) -> torch.Tensor:
        z, logdet = self(x)
        base = -0.5 * (z.pow(2) + math.log(2 * math.pi)).sum(dim=-1)
        return base + logdet


def fit_flow(flow: RealNVP, data: torch.Tensor, steps: int = 500, batch_size: int = 256,
             lr: float = 1e-3) -> List[float]:
    """Maximum likelihood on standardised ``data`` (N, dim); returns the NLL per step."""
    optimizer = torch.optim.Adam(flow.parameters(), lr=lr)
    flow.train()
    curve = []
    for _ in range(steps):
        idx = torch.randint(0, data.size(0), (batch_size,))
        loss = -flow.log_prob(data[idx]).mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(flow.parameters(), 5.0)
        optimizer.step()
        curve.append(loss.item())
    return curve
