# target: train
# truth: optimizer.zero_grad() is missing, so the gradients of all earlier batches add up in every update; the loss falls more slowly, oscillates and gets worse instead of settling.
"""Variational autoencoder for anomaly detection on gas-turbine sensor vectors."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class SensorVAE(nn.Module):
    def __init__(self, n_sensors=24, hidden=48, latent=4):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(n_sensors, hidden), nn.ReLU())
        self.mu = nn.Linear(hidden, latent)
        self.logvar = nn.Linear(hidden, latent)
        self.dec = nn.Sequential(nn.Linear(latent, hidden), nn.ReLU(), nn.Linear(hidden, n_sensors))

    def forward(self, x):
        h = self.enc(x)
        mu, logvar = self.mu(h), self.logvar(h)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)
        return self.dec(z), mu, logvar


def elbo_loss(recon, x, mu, logvar, beta=0.5):
    rec = F.mse_loss(recon, x, reduction="sum") / x.size(0)
    kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(dim=1).mean()
    return rec + beta * kl


def sensor_readings(n=2048, n_sensors=24):
    """Healthy operation: three operating modes mixed into all sensors."""
    modes = torch.randn(n, 3)
    mixing = torch.randn(3, n_sensors)
    return modes @ mixing + 0.1 * torch.randn(n, n_sensors)


def train(epochs: int = 15, batch_size: int = 64, lr: float = 1e-3, seed: int = 0):
    torch.manual_seed(seed)
    data = sensor_readings()
    data = (data - data.mean(0)) / data.std(0)
    loader = DataLoader(TensorDataset(data), batch_size=batch_size, shuffle=True)
    model = SensorVAE(data.size(1))
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    history = []
    for _ in range(epochs):
        model.train()
        total = 0.0
        for (x,) in loader:
            recon, mu, logvar = model(x)
            loss = elbo_loss(recon, x, mu, logvar)
            loss.backward()  # error: DG703
            optimizer.step()
            total += loss.item() * x.size(0)
        history.append(total / len(data))
    return model, history


@torch.no_grad()
def anomaly_score(model, x):
    model.eval()
    recon, _, _ = model(x)
    return (recon - x).pow(2).mean(dim=1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=15)
    model, history = train(parser.parse_args().epochs)
    print([round(h, 2) for h in history])
