# target: DDPM.training_step
"""Minimal DDPM on 1-D signals (Lightning-style module)."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def timestep_embedding(t: torch.Tensor, dim: int, max_period: float = 10000.0) -> torch.Tensor:
    half = dim // 2
    freqs = torch.exp(-math.log(max_period) * torch.arange(half, dtype=torch.float32, device=t.device) / half)
    args = t.float()[:, None] * freqs[None]
    return torch.cat([args.cos(), args.sin()], dim=-1)


class Denoiser(nn.Module):
    def __init__(self, channels: int = 1, width: int = 32, t_dim: int = 64):
        super().__init__()
        self.t_dim = t_dim
        self.t_mlp = nn.Sequential(nn.Linear(t_dim, width), nn.SiLU(), nn.Linear(width, width))
        self.conv_in = nn.Conv1d(channels, width, 5, padding=2)
        self.conv_mid = nn.Conv1d(width, width, 5, padding=2)
        self.conv_out = nn.Conv1d(width, channels, 5, padding=2)

    def forward(self, x, t):
        emb = self.t_mlp(timestep_embedding(t, self.t_dim))
        h = F.silu(self.conv_in(x)) + emb[:, :, None]
        h = F.silu(self.conv_mid(h)) + h
        return self.conv_out(h)


class DDPM(nn.Module):
    def __init__(self, n_steps: int = 200):
        super().__init__()
        self.n_steps = n_steps
        self.model = Denoiser()
        betas = torch.linspace(1e-4, 0.02, n_steps)
        self.register_buffer("alpha_bar", torch.cumprod(1 - betas, dim=0))

    def training_step(self, batch, batch_idx):
        x0 = batch["signal"]
        t = torch.randint(0, self.n_steps, (x0.size(0),), device=x0.device)
        noise = torch.randn_like(x0)
        ab = self.alpha_bar[t][:, None, None]
        noisy = ab.sqrt() * x0 + (1 - ab).sqrt() * noise
        return F.mse_loss(self.model(noisy, t), noise)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=2e-4)


def fit(module: DDPM, batches, device: str = "cuda"):
    module.to(device).train()
    optimizer = module.configure_optimizers()
    for i, batch in enumerate(batches):
        batch = {k: v.to(device) for k, v in batch.items()}
        loss = module.training_step(batch, i)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
