# target: SpeakerVerifier.training_step
"""Speaker verification: TDNN encoder, attentive pooling, AM-softmax. The runner moves model and batch to the device."""
from typing import Dict

import torch
import torch.nn as nn
import torch.nn.functional as F


def length_mask(lengths: torch.Tensor, max_len: int) -> torch.Tensor:
    """True where a frame is real, False where it is padding; (B,) -> (B, max_len)."""
    frames = torch.arange(max_len, device=lengths.device)
    return frames.unsqueeze(0) < lengths.unsqueeze(1)


class TDNN(nn.Module):
    def __init__(self, n_mels: int, channels: int):
        super().__init__()
        self.layers = nn.ModuleList([
            nn.Conv1d(n_mels, channels, 5, padding=2),
            nn.Conv1d(channels, channels, 3, padding=2, dilation=2),
            nn.Conv1d(channels, channels, 3, padding=3, dilation=3),
        ])
        self.norms = nn.ModuleList([nn.BatchNorm1d(channels) for _ in self.layers])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for conv, norm in zip(self.layers, self.norms):
            x = norm(F.relu(conv(x)))
        return x


class AttentivePooling(nn.Module):
    def __init__(self, channels: int):
        super().__init__()
        self.score = nn.Sequential(nn.Conv1d(channels, 64, 1), nn.Tanh(), nn.Conv1d(64, 1, 1))

    def forward(self, h: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        mask = length_mask(lengths, h.size(2)).unsqueeze(1)
        weights = self.score(h).masked_fill(~mask, -1e4).softmax(dim=2)
        mean = (h * weights).sum(dim=2)
        var = (h.pow(2) * weights).sum(dim=2) - mean.pow(2)
        return torch.cat([mean, var.clamp(min=1e-5).sqrt()], dim=1)


class SpeakerVerifier(nn.Module):
    def __init__(self, n_speakers: int, n_mels: int = 40, channels: int = 128, dim: int = 96,
                 scale: float = 30.0, margin: float = 0.2):
        super().__init__()
        self.tdnn = TDNN(n_mels, channels)
        self.pool = AttentivePooling(channels)
        self.project = nn.Linear(2 * channels, dim)
        self.speakers = nn.Parameter(torch.randn(n_speakers, dim))
        self.scale = scale
        self.margin = margin

    def embed(self, mels: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        return F.normalize(self.project(self.pool(self.tdnn(mels), lengths)), dim=1)

    def training_step(self, batch: Dict[str, torch.Tensor], batch_idx: int) -> torch.Tensor:
        """batch: mels (B, n_mels, T), lengths (B,) in frames, speaker (B,)."""
        emb = self.embed(batch["mels"], batch["lengths"])
        cosine = emb @ F.normalize(self.speakers, dim=1).t()
        one_hot = F.one_hot(batch["speaker"], cosine.size(1)).to(cosine.dtype)
        return F.cross_entropy(self.scale * (cosine - self.margin * one_hot), batch["speaker"])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
