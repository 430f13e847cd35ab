# target: calibrate
"""Gaussian process emulator for a simulator with few runs."""
import math

import torch
from torch import nn


class MaternEmulator(nn.Module):
    def __init__(self, x, y, noise=1e-3):
        super().__init__()
        self.register_buffer("x", x)
        self.register_buffer("y", y)
        self.log_scale = nn.Parameter(torch.zeros(x.shape[1], dtype=x.dtype))
        self.log_amp = nn.Parameter(torch.zeros((), dtype=x.dtype))
        self.noise = noise

    def _scale(self, x):
        return x / self.log_scale.exp()

    @property
    def _scaled(self):
        return self._scale(self.x)

    def kernel(self, a, b):
        square = (a[:, None] - b[None, :]).pow(2).sum(-1)
        d = (square + 1e-12).sqrt() * math.sqrt(3.0)
        return self.log_amp.exp() * (1 + d) * torch.exp(-d)

    def cholesky(self):
        k = self.kernel(self._scaled, self._scaled)
        eye = torch.eye(len(k), dtype=k.dtype, device=k.device)
        return torch.linalg.cholesky(k + self.noise * eye)

    def negative_log_likelihood(self):
        chol = self.cholesky()
        alpha = torch.cholesky_solve(self.y[:, None], chol)[:, 0]
        fit = 0.5 * (self.y * alpha).sum()
        return fit + chol.diagonal().log().sum() + 0.5 * len(self.y) * math.log(2 * math.pi)

    @torch.no_grad()
    def predict(self, x):
        chol = self.cholesky()
        cross = self.kernel(self._scale(x), self._scaled)
        return cross @ torch.cholesky_solve(self.y[:, None], chol)[:, 0]


def simulator(x):
    return torch.sin(3 * x[:, 0]) + 0.3 * x[:, 1] ** 2 - 0.05 * x[:, 2]


def calibrate(steps=60, runs=40):
    torch.manual_seed(4)
    x = torch.rand(runs, 3, dtype=torch.float64) * 2 - 1
    model = MaternEmulator(x, simulator(x))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model.negative_log_likelihood()
        loss.backward()
        optimizer.step()
    test = torch.rand(200, 3, dtype=torch.float64) * 2 - 1
    rmse = (model.predict(test) - simulator(test)).pow(2).mean().sqrt()
    return loss.item(), rmse.item()


if __name__ == "__main__":
    print(calibrate())
