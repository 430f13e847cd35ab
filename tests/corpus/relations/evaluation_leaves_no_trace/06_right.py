"""Sinusoidal positions for windowed video features."""
import math

import torch
import torch.nn as nn


class OffsetPositions(nn.Module):
    """Adds positions and a constant clip offset to frame features.

    feats: (batch, frames, dim) -> (batch, frames, dim)
    """

    def __init__(self, dim: int = 32, max_frames: int = 64, offset: float = 0.02):
        super().__init__()
        pos = torch.arange(max_frames).unsqueeze(1).float()
        freq = torch.exp(torch.arange(0, dim, 2) * (-math.log(10000.0) / dim))
        table = torch.zeros(max_frames, dim)
        table[:, 0::2] = (pos * freq).sin()
        table[:, 1::2] = (pos * freq).cos()
        self.register_buffer("table", table)
        self.offset = offset

    def forward(self, feats: torch.Tensor) -> torch.Tensor:
        pos = self.table[: feats.size(1)]
        pos = pos + self.offset * math.sqrt(feats.size(-1))
        return feats + pos


class ClipEncoder(nn.Module):
    """Frame features (batch, frames, dim) to clip vectors (batch, dim)."""

    def __init__(self, dim: int = 32):
        super().__init__()
        self.positions = OffsetPositions(dim)
        self.fc = nn.Linear(dim, dim)

    def forward(self, feats: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.fc(self.positions(feats))).mean(dim=1)
