# target: script
# truth: Autograd anomaly detection, switched on to hunt a nan, is left on for the whole training: every forward operation records a stack
#   trace and every gradient is checked for nan, so a training step takes a multiple of its time.
"""Variational auto-encoder for machine sensor logs."""
import time

import torch
from torch import nn
from torch.nn import functional as F

torch.autograd.set_detect_anomaly(True)  # error: DG616
torch.manual_seed(11)

N_SENSORS, WINDOW, LATENT = 6, 40, 8


class SensorVAE(nn.Module):
    """GRU-cell encoder, MLP decoder."""

    def __init__(self, hidden=32):
        super().__init__()
        self.cell = nn.GRUCell(N_SENSORS, hidden)
        self.to_mu = nn.Linear(hidden, LATENT)
        self.to_logvar = nn.Linear(hidden, LATENT)
        self.decoder = nn.Sequential(nn.Linear(LATENT, 64), nn.ReLU(), nn.Linear(64, N_SENSORS * WINDOW))

    def encode(self, x):
        h = x.new_zeros(x.size(0), self.cell.hidden_size)
        for t in range(x.size(1)):
            h = self.cell(x[:, t], h)
        return self.to_mu(h), self.to_logvar(h).clamp(-8, 8)

    def forward(self, x):
        mu, logvar = self.encode(x)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        return self.decoder(z).view_as(x), mu, logvar


def elbo(recon, x, mu, logvar, beta):
    rec = F.mse_loss(recon, x, reduction="sum") / x.size(0)
    kl = -0.5 * (1 + logvar - mu.square() - logvar.exp()).sum(1).mean()
    return rec + beta * kl


def sensor_batch(n=16):
    t = torch.linspace(0, 6.28, WINDOW)
    phase = torch.rand(n, 1, N_SENSORS) * 6.28
    return torch.sin(t[None, :, None] + phase) + 0.05 * torch.randn(n, WINDOW, N_SENSORS)


def train(steps=60):
    model = SensorVAE()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    started = time.perf_counter()
    for step in range(steps):
        x = sensor_batch()
        recon, mu, logvar = model(x)
        loss = elbo(recon, x, mu, logvar, beta=min(1.0, step / 100))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    per_step = (time.perf_counter() - started) / steps
    print(f"loss {loss.item():.2f}, {1000 * per_step:.1f} ms per step")
    return model


if __name__ == "__main__":
    train()
