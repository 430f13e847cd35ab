"""Autoencoder on synthetic spectra, large effective batch on a small machine."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

ACCUMULATE = 4
MICRO = 8


class SpectrumAE(nn.Module):
    def __init__(self, bins=64, code=6):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(bins, 48), nn.SiLU(), nn.Linear(48, code))
        self.dec = nn.Sequential(nn.Linear(code, 48), nn.SiLU(), nn.Linear(48, bins))

    def forward(self, x):
        return self.dec(self.enc(x))


def spectra(n, bins=64):
    axis = torch.linspace(0, 1, bins)
    centre, width = torch.rand(n, 2, 1), 0.03 + 0.1 * torch.rand(n, 2, 1)
    peaks = torch.exp(-0.5 * ((axis - centre) / width) ** 2)
    return peaks.sum(dim=1)


def train_epoch(model, optimizer, batches):
    total = 0.0
    for i, x in enumerate(batches, start=1):
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), x)
        total += loss.item()
        (loss / ACCUMULATE).backward()
        if i % ACCUMULATE == 0:
            optimizer.step()
    return total / len(batches)


def cosine(step, total, base=2e-3):
    return 0.5 * base * (1 + math.cos(math.pi * step / total))


if __name__ == "__main__":
    torch.manual_seed(3)
    data = spectra(256)
    model = SpectrumAE()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(5):
        for group in optimizer.param_groups:
            group["lr"] = cosine(epoch, 5)
        shuffled = data[torch.randperm(len(data))]
        print(epoch, f"{train_epoch(model, optimizer, shuffled.split(MICRO)):.5f}")
