# target: script
# truth: diagnostics() runs a second decoder pass with gradients on; its results are never backpropagated and go
#   un-detached into the history, so every step's graph and saved activations stay alive and memory grows each step
#   until out of memory.
"""Beta-VAE on synthetic spectra with a few per-step diagnostics."""
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Config:
    n_samples: int = 512
    n_bins: int = 64
    latent: int = 4
    hidden: int = 48
    beta: float = 0.5
    batch_size: int = 32
    epochs: int = 3
    lr: float = 2e-3


class Vae(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(cfg.n_bins, cfg.hidden), nn.SiLU(), nn.Linear(cfg.hidden, 2 * cfg.latent))
        self.dec = nn.Sequential(nn.Linear(cfg.latent, cfg.hidden), nn.SiLU(), nn.Linear(cfg.hidden, cfg.n_bins))

    def forward(self, x):
        mean, logvar = self.enc(x).chunk(2, dim=-1)
        z = mean + torch.randn_like(mean) * torch.exp(0.5 * logvar)
        return self.dec(z), mean, logvar


def spectra(cfg):
    grid = torch.linspace(0, 1, cfg.n_bins)
    centre = torch.rand(cfg.n_samples, 1)
    width = 0.05 + 0.1 * torch.rand(cfg.n_samples, 1)
    return torch.exp(-((grid - centre) / width) ** 2)


class Experiment:
    def __init__(self, cfg):
        self.cfg = cfg
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.data = spectra(cfg)
        self.model = Vae(cfg).to(self.device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=cfg.lr)
        self.history = []

    def terms(self, x):
        recon, mean, logvar = self.model(x)
        rec = F.mse_loss(recon, x, reduction="none").sum(-1).mean()
        kl = 0.5 * (mean.pow(2) + logvar.exp() - 1.0 - logvar).sum(-1).mean()
        return rec, kl, mean

    def diagnostics(self, x, mean):  # error: DG501|DG508
        """Error at the posterior mean, and the spread of the codes over the batch."""
        clean = self.model.dec(mean)
        return {"clean_rec": F.mse_loss(clean, x), "spread": mean.std(dim=0).mean()}

    def step(self, x):
        rec, kl, mean = self.terms(x)
        loss = rec + self.cfg.beta * kl
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.history.append({"loss": loss.detach(), **self.diagnostics(x, mean)})

    def train(self):
        self.model.train()
        for _ in range(self.cfg.epochs):
            order = torch.randperm(self.cfg.n_samples)
            for batch in order.split(self.cfg.batch_size):
                self.step(self.data[batch].to(self.device))


if __name__ == "__main__":
    torch.manual_seed(0)
    run = Experiment(Config())
    run.train()
    last = torch.stack([h["loss"] for h in run.history[-16:]]).mean()
    clean = torch.stack([h["clean_rec"] for h in run.history[-16:]]).mean()
    print(f"loss {last.item():.2f}, error at posterior mean {clean.item():.4f}")
