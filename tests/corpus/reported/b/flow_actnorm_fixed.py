# source: https://github.com/bayesiains/nflows/issues/4
import math
from typing import Tuple

import torch
from torch import Tensor, nn


class ActNorm(nn.Module):
    """Per feature affine layer, set from the first batch so that its outputs are standardised."""

    def __init__(self, features: int):
        super().__init__()
        self.register_buffer("initialized", torch.tensor(False))
        self.log_scale = nn.Parameter(torch.zeros(features))
        self.shift = nn.Parameter(torch.zeros(features))

    @property
    def scale(self) -> Tensor:
        return torch.exp(self.log_scale)

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        if self.training and not self.initialized:
            self._initialize(x)
        logabsdet = self.log_scale.sum() * x.new_ones(x.shape[0])
        return self.scale * x + self.shift, logabsdet

    def _initialize(self, x: Tensor) -> None:
        with torch.no_grad():
            std = x.std(dim=0).clamp(min=1e-4)
            self.log_scale.copy_(-torch.log(std))
            self.shift.copy_(-(x / std).mean(dim=0))
            self.initialized.fill_(True)


class AffineCoupling(nn.Module):
    def __init__(self, features: int, hidden: int, flip: bool):
        super().__init__()
        self.flip = flip
        half = features // 2
        self.net = nn.Sequential(nn.Linear(half, hidden), nn.ReLU(), nn.Linear(hidden, 2 * (features - half)))

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        a, b = x.chunk(2, dim=-1)
        if self.flip:
            a, b = b, a
        log_s, t = self.net(a).chunk(2, dim=-1)
        log_s = torch.tanh(log_s)
        b = b * log_s.exp() + t
        out = torch.cat([b, a] if self.flip else [a, b], dim=-1)
        return out, log_s.sum(-1)


class Flow(nn.Module):
    def __init__(self, features: int, layers: int, hidden: int = 32):
        super().__init__()
        steps = []
        for i in range(layers):
            steps += [ActNorm(features), AffineCoupling(features, hidden, flip=bool(i % 2))]
        self.steps = nn.ModuleList(steps)

    def log_prob(self, x: Tensor) -> Tensor:
        total = x.new_zeros(x.shape[0])
        for step in self.steps:
            x, logabsdet = step(x)
            total = total + logabsdet
        base = -0.5 * (x ** 2).sum(-1) - 0.5 * x.shape[-1] * math.log(2 * math.pi)
        return base + total


def two_moons(n: int) -> Tensor:
    theta = math.pi * torch.rand(n)
    upper = torch.rand(n) < 0.5
    x = torch.where(upper, torch.cos(theta), 1 - torch.cos(theta))
    y = torch.where(upper, torch.sin(theta), 0.5 - torch.sin(theta))
    return torch.stack([x, y], -1) + 0.05 * torch.randn(n, 2)


def fit(flow: Flow, optimizer: torch.optim.Optimizer, steps: int) -> list:
    flow.train()
    history = []
    for _ in range(steps):
        loss = -flow.log_prob(two_moons(256)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history.append(loss.item())
    return history


def build(lr: float = 5e-3):
    flow = Flow(features=2, layers=4)
    return flow, torch.optim.Adam(flow.parameters(), lr=lr)


if __name__ == "__main__":
    torch.manual_seed(0)
    flow, optimizer = build()
    first = fit(flow, optimizer, 60)
    checkpoint = {"flow": flow.state_dict(), "optimizer": optimizer.state_dict()}

    resumed, resumed_optimizer = build()
    resumed.load_state_dict(checkpoint["flow"])
    resumed_optimizer.load_state_dict(checkpoint["optimizer"])
    second = fit(resumed, resumed_optimizer, 10)
    print("start %.3f end %.3f | after resume %.3f %.3f" % (first[0], first[-1], second[0], second[-1]))
