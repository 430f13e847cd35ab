# target: embed_clips
"""Utterance embeddings from log-mel frames."""
import math
from typing import Iterable

import torch
from torch import nn


class SinusoidalPositions(nn.Module):
    def __init__(self, d_model: int, max_len: int = 3000):
        super().__init__()
        pos = torch.arange(max_len, dtype=torch.float32).unsqueeze(1)
        div = torch.exp(torch.arange(0, d_model, 2).float() * (-math.log(10000.0) / d_model))
        table = torch.zeros(max_len, d_model)
        table[:, 0::2] = torch.sin(pos * div)
        table[:, 1::2] = torch.cos(pos * div)
        self.register_buffer("table", table.unsqueeze(0), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.table[:, : x.size(1)]


class FrameEncoder(nn.Module):
    def __init__(self, n_mels: int = 80, d_model: int = 144, n_layers: int = 4, n_heads: int = 4):
        super().__init__()
        self.subsample = nn.Conv1d(n_mels, d_model, kernel_size=3, stride=2, padding=1)
        self.positions = SinusoidalPositions(d_model)
        layer = nn.TransformerEncoderLayer(
            d_model, n_heads, dim_feedforward=4 * d_model, batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, n_layers, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(d_model)

    def forward(self, mels: torch.Tensor) -> torch.Tensor:
        """mels: (batch, n_mels, frames) -> (batch, d_model)"""
        x = self.subsample(mels).transpose(1, 2)
        x = self.layers(self.positions(x))
        return self.norm(x).mean(dim=1)


@torch.no_grad()
def embed_clips(
    encoder: FrameEncoder, batches: Iterable[torch.Tensor], device: str = "cuda"
) -> torch.Tensor:
    """Embed an iterable of CPU mel batches and return the stacked embeddings on the CPU."""
    encoder = encoder.to(device).eval()
    out = []
    for mels in batches:
        out.append(encoder(mels.to(device, non_blocking=True)).cpu())
    return torch.cat(out)
