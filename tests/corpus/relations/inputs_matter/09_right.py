"""Band-split encoder for music tagging."""
from typing import Sequence

import torch
import torch.nn as nn


class BandBranch(nn.Module):
    def __init__(self, n_bins: int, dim: int):
        super().__init__()
        self.norm = nn.LayerNorm(n_bins)
        self.fc = nn.Linear(n_bins, dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.fc(self.norm(x)))


class MultiBandEncoder(nn.Module):
    """Encodes each frequency band on its own and sums the band features.

    Args:
        edges: bin indices where the bands start and end, e.g. (0, 8, 24, 64).
        dim: size of the features.

    forward: spectrogram (B, T, edges[-1]) -> (B, T, dim)
    """

    def __init__(self, edges: Sequence[int] = (0, 8, 24, 64), dim: int = 32):
        super().__init__()
        self.edges = tuple(edges)
        self.branches = nn.ModuleList(
            BandBranch(hi - lo, dim) for lo, hi in zip(self.edges[:-1], self.edges[1:])
        )
        self.mix = nn.Linear(dim, dim)

    def forward(self, spec: torch.Tensor) -> torch.Tensor:
        total = spec.new_zeros(spec.shape[0], spec.shape[1], self.mix.in_features)
        for i in range(len(self.branches)):
            lo, hi = self.edges[i], self.edges[i + 1]
            total = total + self.branches[i](spec[..., lo:hi])
        return self.mix(total)
