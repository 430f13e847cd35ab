# target: script
"""Vector-quantised autoencoder over short motion-capture windows."""
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class VQConfig:
    joints: int = 12
    hidden: int = 48
    code_dim: int = 8
    codes: int = 64
    beta: float = 0.25
    lr: float = 2e-3
    steps: int = 150


class VectorQuantizer(nn.Module):
    """Nearest codebook entry with a straight-through gradient; inputs are (batch, time, code_dim)."""

    def __init__(self, codes, code_dim, beta):
        super().__init__()
        self.codebook = nn.Embedding(codes, code_dim)
        nn.init.uniform_(self.codebook.weight, -1.0, 1.0)
        self.beta = beta

    def forward(self, z):
        index = torch.cdist(z.detach().flatten(0, 1), self.codebook.weight.detach()).argmin(dim=1)
        quantized = self.codebook(index).view_as(z)
        codebook_term = F.mse_loss(quantized, z.detach())
        commitment = F.mse_loss(z, quantized.detach())
        quantized = z + (quantized - z).detach()
        return quantized, codebook_term + self.beta * commitment, index.view(z.shape[:2])


class MotionVQ(nn.Module):
    def __init__(self, cfg: VQConfig):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(cfg.joints, cfg.hidden), nn.SiLU(), nn.Linear(cfg.hidden, cfg.code_dim))
        self.quantizer = VectorQuantizer(cfg.codes, cfg.code_dim, cfg.beta)
        self.decoder = nn.Sequential(nn.Linear(cfg.code_dim, cfg.hidden), nn.SiLU(), nn.Linear(cfg.hidden, cfg.joints))

    def forward(self, frames):
        quantized, vq_loss, index = self.quantizer(self.encoder(frames))
        return self.decoder(quantized), vq_loss, index


def synthetic_motion(batch, time, joints, device):
    phase = torch.rand(batch, 1, 1, device=device) * 6.28
    speed = 0.1 + 0.2 * torch.rand(batch, 1, 1, device=device)
    steps = torch.arange(time, device=device).view(1, time, 1)
    offset = torch.arange(joints, device=device) * 0.4
    return torch.sin(phase + speed * steps + offset)


def train(cfg, device):
    model = MotionVQ(cfg).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=cfg.lr)
    for step in range(cfg.steps):
        frames = synthetic_motion(16, 20, cfg.joints, device)
        decoded, vq_loss, index = model(frames)
        reconstruction = F.mse_loss(decoded, frames)
        loss = reconstruction + vq_loss
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"{step:4d} rec {reconstruction.item():.4f} vq {vq_loss.item():.4f} used {index.unique().numel()}")
    return model


if __name__ == "__main__":
    torch.manual_seed(0)
    train(VQConfig(), torch.device("cuda" if torch.cuda.is_available() else "cpu"))
