from typing import Optional

import torch
import torch.nn as nn


class FrameNorm(nn.Module):
    """Normalises every frame of a sensor recording over its channels.

    Recordings come in raw units (for instance hPa or K), so that the values of a
    frame may lie around 1000 with a spread of a few tenths.

    Args:
        channels: number of channels in a frame.
        eps: added to the variance.
        affine: whether to learn a gain and an offset per channel.
    """

    def __init__(self, channels: int, eps: float = 1e-5, affine: bool = True):
        super().__init__()
        self.eps = eps
        self.gain = nn.Parameter(torch.ones(channels)) if affine else None
        self.offset = nn.Parameter(torch.zeros(channels)) if affine else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean = x.mean(dim=-1, keepdim=True)
        var = x.pow(2).mean(dim=-1, keepdim=True) - mean.pow(2)
        x = (x - mean) * torch.rsqrt(var.clamp(min=0.0) + self.eps)
        if self.gain is not None:
            x = x * self.gain + self.offset
        return x


class RecordingEncoder(nn.Module):
    """Frame normalisation, a linear map and a mean over the valid frames."""

    def __init__(self, channels: int, dim: int):
        super().__init__()
        self.norm = FrameNorm(channels)
        self.proj = nn.Linear(channels, dim)

    def forward(self, frames: torch.Tensor, valid: Optional[torch.Tensor] = None) -> torch.Tensor:
        h = torch.tanh(self.proj(self.norm(frames)))
        if valid is None:
            return h.mean(dim=1)
        weight = valid.to(h.dtype).unsqueeze(-1)
        return (h * weight).sum(dim=1) / weight.sum(dim=1).clamp(min=1.0)
