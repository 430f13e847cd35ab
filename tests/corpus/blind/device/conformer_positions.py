# target: SpeechEncoder.forward
# truth: When an utterance is longer than the table, the table is rebuilt on the CPU and replaces the buffer, so on a
#   GPU only long inputs fail: "Expected all tensors to be on the same device, but found at least two devices, cuda:0
#   and cpu!"
"""Encoder front end for long-form speech recognition."""
import math

import torch
from torch import nn


def sinusoid_table(length: int, dim: int) -> torch.Tensor:
    position = torch.arange(length, dtype=torch.float32).unsqueeze(1)
    freq = torch.exp(torch.arange(0, dim, 2, dtype=torch.float32) * (-math.log(10000.0) / dim))
    table = torch.zeros(length, dim)
    table[:, 0::2] = torch.sin(position * freq)
    table[:, 1::2] = torch.cos(position * freq)
    return table


class AbsolutePositions(nn.Module):
    """Scaled input plus sinusoids; the table grows when a longer utterance arrives."""

    def __init__(self, dim: int, dropout: float = 0.1, initial_length: int = 512):
        super().__init__()
        self.dim = dim
        self.scale = math.sqrt(dim)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("table", sinusoid_table(initial_length, dim), persistent=False)

    def _ensure(self, length: int) -> None:
        if length > self.table.size(0):
            self.table = sinusoid_table(2 * length, self.dim)  # error: DG203|DG205

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self._ensure(x.size(1))
        return self.dropout(x * self.scale + self.table[: x.size(1)])


class Subsampling(nn.Module):
    """Strided convolution that shortens the time axis four times."""

    def __init__(self, n_mels: int, dim: int):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv1d(n_mels, dim, 3, stride=2, padding=1), nn.SiLU(),
            nn.Conv1d(dim, dim, 3, stride=2, padding=1), nn.SiLU(),
        )

    def forward(self, mels: torch.Tensor) -> torch.Tensor:
        return self.conv(mels.transpose(1, 2)).transpose(1, 2)


class SpeechEncoder(nn.Module):
    def __init__(self, n_mels: int = 80, dim: int = 144, heads: int = 4, layers: int = 4, initial_length: int = 512):
        super().__init__()
        self.subsample = Subsampling(n_mels, dim)
        self.positions = AbsolutePositions(dim, initial_length=initial_length)
        layer = nn.TransformerEncoderLayer(dim, heads, 4 * dim, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)

    def forward(self, mels: torch.Tensor) -> torch.Tensor:
        """(batch, frames, n_mels) -> (batch, about frames / 4, dim)"""
        return self.blocks(self.positions(self.subsample(mels)))
