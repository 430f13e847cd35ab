"""Discrete bottleneck for speech units."""
from typing import Tuple

import torch
import torch.nn as nn
import torch.nn.functional as F


class GumbelQuantizer(nn.Module):
    """Straight-through Gumbel softmax over a learned codebook.

    h: (batch, frames, dim) -> quantised (batch, frames, dim), code probabilities
    (batch, frames, codes)
    """

    def __init__(self, dim: int = 32, codes: int = 40, tau: float = 1.0):
        super().__init__()
        self.tau = tau
        self.logits = nn.Linear(dim, codes)
        self.codebook = nn.Parameter(torch.randn(codes, dim) * 0.1)

    def forward(self, h: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
        logits = self.logits(h)
        onehot = F.gumbel_softmax(logits, tau=self.tau, hard=True, dim=-1)
        return onehot @ self.codebook, logits.softmax(-1)


class SpeechUnits(nn.Module):
    """Frames (batch, frames, mels) to reconstructed frames (batch, frames, mels)."""

    def __init__(self, mels: int = 20, dim: int = 32):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(mels, dim), nn.Tanh())
        self.quant = GumbelQuantizer(dim)
        self.dec = nn.Linear(dim, mels)

    def forward(self, frames: torch.Tensor) -> torch.Tensor:
        q, _ = self.quant(self.enc(frames))
        return self.dec(q)
