# target: make_loaders
# truth: __getitem__ hands the cached spectrogram itself to the augmentation, which masks in place; the masks accumulate
#   in the cache from epoch to epoch until most of the training data is zero.
"""Keyword spotting data: log-mel spectrograms held in memory, with SpecAugment style masking at training time."""
from typing import Sequence

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class MaskBands(nn.Module):
    """Blank, in place, one random frequency band and one random stretch of time of a (mels, frames) spectrogram."""

    def __init__(self, max_freq: int = 8, max_time: int = 12):
        super().__init__()
        self.max_freq = max_freq
        self.max_time = max_time

    def forward(self, spec: torch.Tensor) -> torch.Tensor:
        mels, frames = spec.shape
        width = int(torch.randint(0, min(self.max_freq, mels) + 1, ()))
        start = int(torch.randint(0, mels - width + 1, ()))
        spec[start : start + width] = 0.0
        width = int(torch.randint(0, min(self.max_time, frames) + 1, ()))
        start = int(torch.randint(0, frames - width + 1, ()))
        spec[:, start : start + width] = 0.0
        return spec


class KeywordDataset(Dataset):
    def __init__(self, specs: Sequence[torch.Tensor], labels: Sequence[int], augment: nn.Module | None = None):
        if len(specs) != len(labels):
            raise ValueError("specs and labels differ in length")
        # normalised once, kept in memory
        self.specs = [(s - s.mean()) / (s.std() + 1e-5) for s in specs]
        self.labels = list(labels)
        self.augment = augment

    def __len__(self) -> int:
        return len(self.specs)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        spec = self.specs[index]  # error: DG803
        if self.augment is not None:
            spec = self.augment(spec)
        return spec.unsqueeze(0), self.labels[index]


def make_loaders(specs, labels, batch_size: int = 32, holdout: float = 0.1) -> tuple[DataLoader, DataLoader]:
    """Deterministic split; only the training part is masked."""
    order = torch.randperm(len(specs), generator=torch.Generator().manual_seed(0)).tolist()
    cut = int(len(order) * holdout)
    valid, train = order[:cut], order[cut:]
    train_set = KeywordDataset([specs[i] for i in train], [labels[i] for i in train], MaskBands())
    valid_set = KeywordDataset([specs[i] for i in valid], [labels[i] for i in valid])
    return (
        DataLoader(train_set, batch_size=batch_size, shuffle=True),
        DataLoader(valid_set, batch_size=batch_size),
    )
