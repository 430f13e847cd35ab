"""Synthetic series and windows of them."""
import math

import torch
from torch import Tensor
from torch.utils.data import Dataset


def make_series(n: int, seed: int = 0) -> Tensor:
    g = torch.Generator().manual_seed(seed)
    t = torch.arange(n, dtype=torch.float32)
    clean = torch.sin(2 * math.pi * t / 12) + 0.5 * torch.sin(2 * math.pi * t / 5)
    return clean + 0.05 * torch.randn(n, generator=g)


class SeriesDataset(Dataset):
    """Windows of `length` values, each with the value that follows."""

    def __init__(self, series: Tensor, length: int):
        if series.numel() <= length:
            raise ValueError("the series is shorter than one window")
        windows = series.unfold(0, length + 1, 1)
        self.inputs, self.targets = windows[:, :-1], windows[:, -1:]

    def __len__(self) -> int:
        return self.inputs.size(0)

    def __getitem__(self, i: int):
        return self.inputs[i], self.targets[i]
