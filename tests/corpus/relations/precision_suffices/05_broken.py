import math
from typing import Sequence

import torch
import torch.nn as nn


class TimeEncoding(nn.Module):
    """Encodes unix time stamps by their phase within given periods.

    Args:
        dim: size of the output.
        periods: lengths of the periods in seconds (minute, hour, day, week).
    """

    def __init__(self, dim: int, periods: Sequence[int] = (60, 3600, 86400, 604800)):
        super().__init__()
        self.register_buffer("periods", torch.tensor(periods, dtype=torch.long))
        self.proj = nn.Linear(2 * len(periods), dim)

    def forward(self, seconds: torch.Tensor) -> torch.Tensor:
        """Maps integer time stamps of any shape to (..., dim)."""
        dtype = self.proj.weight.dtype
        seconds = seconds.unsqueeze(-1).to(dtype)
        phase = torch.remainder(seconds, self.periods) / self.periods
        angle = 2 * math.pi * phase
        return self.proj(torch.cat([angle.sin(), angle.cos()], dim=-1))


class EventSequenceModel(nn.Module):
    """GRU over events with a type and a time stamp; predicts the next type."""

    def __init__(self, types: int, dim: int = 32):
        super().__init__()
        self.type_embed = nn.Embedding(types, dim)
        self.time = TimeEncoding(dim)
        self.rnn = nn.GRU(dim, dim, batch_first=True)
        self.out = nn.Linear(dim, types)

    def forward(self, types: torch.Tensor, seconds: torch.Tensor) -> torch.Tensor:
        h = self.type_embed(types) + self.time(seconds)
        return self.out(self.rnn(h)[0])
