"""Frame level event detection."""
from typing import Optional

import torch
import torch.nn as nn


class ScoreSmoother(nn.Module):
    """First order low pass over the frames of every clip.

    scores: (clips, frames, events) -> (clips, frames, events)
    """

    def __init__(self, events: int, init: float = 0.5):
        super().__init__()
        self.logit = nn.Parameter(torch.full((events,), init))
        self.state: Optional[torch.Tensor] = None

    def forward(self, scores: torch.Tensor) -> torch.Tensor:
        a = torch.sigmoid(self.logit)
        state = scores[:, 0]
        out = []
        for frame in scores.unbind(dim=1):
            state = a * state + (1 - a) * frame
            out.append(state)
        return torch.stack(out, dim=1)


class EventDetector(nn.Module):
    """Log mel frames (clips, frames, bins) to event probabilities (clips, frames, events)."""

    def __init__(self, bins: int = 32, events: int = 5):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(bins, 48), nn.ReLU(), nn.Linear(48, events))
        self.smooth = ScoreSmoother(events)

    def forward(self, mel: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(self.smooth(self.net(mel)))
