# source: https://github.com/showlab/Olaf-World/issues/8
"""Latent action model: an action code is inferred from two frames and used to predict the second one."""
from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass
class LAMOutput:
    recon: Tensor
    z_q: Tensor
    z: Tensor
    z_e: Tensor
    indices: Tensor


class VectorQuantizer(nn.Module):
    def __init__(self, num_codes: int, dim: int):
        super().__init__()
        self.codebook = nn.Embedding(num_codes, dim)
        nn.init.uniform_(self.codebook.weight, -1.0 / num_codes, 1.0 / num_codes)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        dist = torch.cdist(x, self.codebook.weight)
        indices = dist.argmin(dim=-1)
        z = self.codebook(indices)
        z_q = x + (z - x).detach()
        return z_q, z, indices


class FrameEncoder(nn.Module):
    def __init__(self, in_channels: int, width: int, dim: int):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(in_channels, width, 4, stride=2, padding=1),
            nn.GELU(),
            nn.Conv2d(width, width, 4, stride=2, padding=1),
            nn.GELU(),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
            nn.Linear(width * 4, dim),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)


class VQLatentActionModel(nn.Module):
    def __init__(self, channels: int = 3, width: int = 32, dim: int = 16, num_codes: int = 8, beta: float = 0.25):
        super().__init__()
        self.beta = beta
        self.encoder = FrameEncoder(2 * channels, width, dim)
        self.vq = VectorQuantizer(num_codes, dim)
        self.stem = nn.Conv2d(channels, width, 3, padding=1)
        self.film = nn.Linear(dim, 2 * width)
        self.head = nn.Sequential(nn.GELU(), nn.Conv2d(width, channels, 3, padding=1))

    def encode(self, frame: Tensor, following: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        z_e = self.encoder(torch.cat([frame, following], dim=1))
        z_q, z, indices = self.vq(z_e)
        return z_q, z, z_e, indices

    def decode(self, frame: Tensor, action: Tensor) -> Tensor:
        scale, shift = self.film(action)[:, :, None, None].chunk(2, dim=1)
        return frame + self.head(self.stem(frame) * (1 + scale) + shift)

    def forward(self, frame: Tensor, following: Tensor) -> LAMOutput:
        z_q, z, z_e, indices = self.encode(frame, following)
        return LAMOutput(self.decode(frame, z_q), z_q, z, z_e, indices)

    def loss(self, frame: Tensor, following: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        out = self(frame, following)
        recon_loss = F.mse_loss(out.recon, following)
        codebook_loss = F.mse_loss(out.z, out.z_e.detach())
        commit_loss = F.mse_loss(out.z_e, out.z.detach())
        total = recon_loss + codebook_loss + self.beta * commit_loss
        logs = {
            "recon": recon_loss.detach(),
            "codebook": codebook_loss.detach(),
            "commit": commit_loss.detach(),
        }
        return total, logs
