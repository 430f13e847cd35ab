import math
from typing import Optional

import torch
import torch.nn as nn


class RandomFourierFeatures(nn.Module):
    """Random projection followed by sine and cosine.

    Args:
        in_dim: dimensions of the coordinates.
        num_features: number of random frequencies.
        scale: standard deviation of the frequencies.
    """

    def __init__(self, in_dim: int, num_features: int, scale: float = 4.0):
        super().__init__()
        self.out_dim = 2 * num_features
        frequencies = torch.randn(in_dim, num_features) * scale
        self.register_buffer("frequencies", frequencies)

    def forward(self, coords: torch.Tensor) -> torch.Tensor:
        phase = 2 * math.pi * coords @ self.frequencies
        return torch.cat([phase.sin(), phase.cos()], dim=-1)


class ImplicitField(nn.Module):
    """Coordinate network: position (and an optional code) to field values."""

    def __init__(self, in_dim: int = 3, out_dim: int = 1, hidden: int = 64,
                 depth: int = 2, code_dim: int = 0, num_features: int = 32):
        super().__init__()
        self.features = RandomFourierFeatures(in_dim, num_features)
        layers, width = [], self.features.out_dim + code_dim
        for _ in range(depth):
            layers += [nn.Linear(width, hidden), nn.ReLU(inplace=True)]
            width = hidden
        layers.append(nn.Linear(width, out_dim))
        self.mlp = nn.Sequential(*layers)

    def forward(self, coords: torch.Tensor, code: Optional[torch.Tensor] = None) -> torch.Tensor:
        h = self.features(coords)
        if code is not None:
            h = torch.cat([h, code.expand(*h.shape[:-1], -1)], dim=-1)
        return self.mlp(h)
