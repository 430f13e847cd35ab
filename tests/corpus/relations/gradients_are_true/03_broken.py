from typing import Tuple

import torch
import torch.nn as nn


class UniformQuantizer(nn.Module):
    """Rounds a bounded code to a given number of levels per dimension.

    The backward pass hands the gradient through the rounding unchanged.

    Args:
        levels: number of levels in [-1, 1].
    """

    def __init__(self, levels: int = 8):
        super().__init__()
        if levels < 2:
            raise ValueError("need at least two levels")
        self.levels = levels

    def forward(self, z: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
        """Returns the quantised code and the integer indices."""
        half = (self.levels - 1) / 2
        bounded = torch.tanh(z)
        index = torch.round((bounded + 1) * half)
        quantized = index / half - 1
        quantized = bounded + (quantized - bounded)
        return quantized, index.long()


class QuantizedAutoencoder(nn.Module):
    """Convolutional autoencoder of 1-D signals with a quantised bottleneck."""

    def __init__(self, channels: int = 1, width: int = 16, code: int = 4, levels: int = 8):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv1d(channels, width, 4, stride=2, padding=1), nn.ELU(),
            nn.Conv1d(width, code, 4, stride=2, padding=1),
        )
        self.quantizer = UniformQuantizer(levels)
        self.decoder = nn.Sequential(
            nn.ConvTranspose1d(code, width, 4, stride=2, padding=1), nn.ELU(),
            nn.ConvTranspose1d(width, channels, 4, stride=2, padding=1),
        )

    def forward(self, signal: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
        code, index = self.quantizer(self.encoder(signal))
        return self.decoder(code), index
