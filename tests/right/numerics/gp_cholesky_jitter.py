"""Gaussian process regression: Cholesky with growing jitter, marginal likelihood, predictions by solves."""
import math

import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.set_default_dtype(torch.float64)


def safe_cholesky(k, first=1e-8, tries=6):
    eye = torch.eye(k.size(-1), device=k.device, dtype=k.dtype)
    jitter = 0.0
    for i in range(tries):
        factor, info = torch.linalg.cholesky_ex(k + jitter * eye)
        if not info.any():
            return factor
        jitter = first * 10**i
    raise RuntimeError("matrix is not positive definite, even with jitter")


class RBFKernel(nn.Module):
    def __init__(self):
        super().__init__()
        self.log_length = nn.Parameter(torch.zeros(()))
        self.log_scale = nn.Parameter(torch.zeros(()))

    def forward(self, a, b):
        squared = (a.unsqueeze(1) - b.unsqueeze(0)).square().sum(-1)
        return torch.exp(2 * self.log_scale - 0.5 * squared / torch.exp(2 * self.log_length))


class GP(nn.Module):
    def __init__(self):
        super().__init__()
        self.kernel = RBFKernel()
        self.log_noise = nn.Parameter(torch.tensor(-1.0))

    def factor(self, x):
        eye = torch.eye(len(x), device=x.device)
        return safe_cholesky(self.kernel(x, x) + torch.exp(2 * self.log_noise) * eye)

    def neg_log_likelihood(self, x, y):
        L = self.factor(x)
        alpha = torch.cholesky_solve(y.unsqueeze(1), L).squeeze(1)
        return 0.5 * y @ alpha + L.diagonal().log().sum() + 0.5 * len(x) * math.log(2 * math.pi)

    @torch.no_grad()
    def predict(self, x, y, query):
        L = self.factor(x)
        cross = self.kernel(x, query)
        mean = cross.T @ torch.cholesky_solve(y.unsqueeze(1), L).squeeze(1)
        v = torch.linalg.solve_triangular(L, cross, upper=False)
        prior = torch.exp(2 * self.kernel.log_scale)
        return mean, (prior - v.square().sum(dim=0)).clamp(min=0)


torch.manual_seed(0)
x = torch.rand(40, 1, device=device) * 6
y = torch.sin(x).squeeze(1) + 0.1 * torch.randn(40, device=device)
gp = GP().to(device)
opt = torch.optim.Adam(gp.parameters(), lr=5e-2)
for step in range(60):
    opt.zero_grad()
    loss = gp.neg_log_likelihood(x, y)
    loss.backward()
    opt.step()
    if step % 20 == 0:
        print(f"step {step}: nll {loss.item():.3f}")

grid = torch.linspace(0, 6, 50, device=device).unsqueeze(1)
mean, var = gp.predict(x, y, grid)
rmse = (mean - grid.squeeze(1).sin()).square().mean().sqrt()
print(f"rmse {rmse.item():.3f}, noise {gp.log_noise.exp().item():.3f}, largest std {var.sqrt().max().item():.3f}")
