# target: build_gallery
"""Build a gallery of speaker embeddings for verification."""
from typing import Iterable, Tuple

import torch
import torch.nn as nn
import torch.nn.functional as F


class StatsPooling(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x.mean(dim=-1), x.std(dim=-1)], dim=1)


class XVector(nn.Module):
    """Time-delay network over (B, n_mfcc, frames)."""

    def __init__(self, n_mfcc: int = 24, channels: int = 64, emb_dim: int = 48):
        super().__init__()
        self.tdnn = nn.Sequential(
            nn.Conv1d(n_mfcc, channels, 5, padding=2), nn.ReLU(), nn.BatchNorm1d(channels),
            nn.Conv1d(channels, channels, 3, dilation=2, padding=2), nn.ReLU(), nn.BatchNorm1d(channels),
            nn.Conv1d(channels, channels, 3, dilation=3, padding=3), nn.ReLU(), nn.BatchNorm1d(channels),
        )
        self.pool = StatsPooling()
        self.embed = nn.Linear(2 * channels, emb_dim)

    def forward(self, mfcc: torch.Tensor) -> torch.Tensor:
        return F.normalize(self.embed(self.pool(self.tdnn(mfcc))), dim=1)


def utterance_batches(n_batches: int, batch_size: int = 16, frames: int = 300):
    for i in range(n_batches):
        speakers = torch.arange(batch_size) + (i % 4) * batch_size
        yield torch.randn(batch_size, 24, frames), speakers


def average_per_speaker(embeddings: torch.Tensor, speakers: torch.Tensor) -> torch.Tensor:
    n = int(speakers.max()) + 1
    sums = embeddings.new_zeros(n, embeddings.size(1)).index_add(0, speakers, embeddings)
    return F.normalize(sums, dim=1)


def build_gallery(
    model: XVector, batches: Iterable[Tuple[torch.Tensor, torch.Tensor]]
) -> torch.Tensor:
    """One averaged, normalised embedding per enrolled speaker."""
    model.eval()
    embeddings, speakers = [], []
    for mfcc, speaker in batches:
        with torch.no_grad():
            embeddings.append(model(mfcc))
        speakers.append(speaker)
    return average_per_speaker(torch.cat(embeddings), torch.cat(speakers))


def score(gallery: torch.Tensor, probe: torch.Tensor) -> torch.Tensor:
    """Cosine scores of probe embeddings (B, D) against the gallery (S, D)."""
    return probe @ gallery.t()


if __name__ == "__main__":
    print(build_gallery(XVector(), utterance_batches(16)).shape)
