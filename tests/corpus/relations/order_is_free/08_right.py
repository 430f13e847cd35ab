"""Feature extraction for the keyword spotter."""
import torch
import torch.nn as nn


def add_deltas(feats: torch.Tensor) -> torch.Tensor:
    """Append first differences over time.

    feats: (utterances, frames, coefficients).
    Returns (utterances, frames, 2 * coefficients).
    """
    delta = torch.diff(feats, dim=1, prepend=feats[:, :1])
    return torch.cat([feats, delta], dim=-1)


def log_energy(wave: torch.Tensor, frame: int = 160, hop: int = 80) -> torch.Tensor:
    """(utterances, samples) -> (utterances, frames, 1)"""
    frames = wave.unfold(-1, frame, hop)
    return frames.pow(2).mean(-1, keepdim=True).clamp(min=1e-8).log()


class KeywordSpotter(nn.Module):
    """Linear classifier on pooled coefficients and their deltas.

    forward: feats (utterances, frames, coefficients) -> (utterances, keywords)
    """

    def __init__(self, coefficients: int = 13, keywords: int = 6):
        super().__init__()
        self.fc1 = nn.Linear(2 * coefficients, 32)
        self.fc2 = nn.Linear(32, keywords)

    def forward(self, feats: torch.Tensor) -> torch.Tensor:
        h = torch.relu(self.fc1(add_deltas(feats)))
        return self.fc2(h.mean(dim=1))
