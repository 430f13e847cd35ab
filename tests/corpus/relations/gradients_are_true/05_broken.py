from typing import List

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def haar_split(x: torch.Tensor):
    """One level of the Haar transform along the last axis."""
    even, odd = x[..., ::2], x[..., 1::2]
    root = 2 ** -0.5
    return (even + odd) * root, (even - odd) * root


def haar_merge(low: torch.Tensor, high: torch.Tensor) -> torch.Tensor:
    root = 2 ** -0.5
    pair = torch.stack([(low + high) * root, (low - high) * root], dim=-1)
    return pair.flatten(-2)


class WaveletShrink(nn.Module):
    """Denoises signals by soft thresholds on their Haar coefficients.

    Args:
        levels: depth of the transform; the length must be divisible by 2**levels.
        start: initial threshold of each level.
    """

    def __init__(self, levels: int = 3, start: float = 0.1):
        super().__init__()
        self.levels = levels
        self.raw = nn.Parameter(torch.full((levels,), float(np.log(np.expm1(start)))))

    def forward(self, signal: torch.Tensor) -> torch.Tensor:
        thresholds = np.log1p(np.exp(self.raw.detach().numpy()))
        low, details = signal, []  # type: torch.Tensor, List[torch.Tensor]
        for level in range(self.levels):
            low, high = haar_split(low)
            shrunk = torch.sign(high) * F.relu(high.abs() - thresholds[level])
            details.append(shrunk)
        for high in reversed(details):
            low = haar_merge(low, high)
        return low


class DenoisingHead(nn.Module):
    """Shrinkage followed by a short residual convolution."""

    def __init__(self, levels: int = 3, kernel: int = 5):
        super().__init__()
        self.shrink = WaveletShrink(levels)
        self.conv = nn.Conv1d(1, 1, kernel, padding=kernel // 2)

    def forward(self, signal: torch.Tensor) -> torch.Tensor:
        clean = self.shrink(signal)
        return clean + self.conv(clean.unsqueeze(1)).squeeze(1)
