from typing import List, Sequence

import torch
import torch.nn as nn
import torch.nn.functional as F


class PyramidHead(nn.Module):
    """Feature pyramid: lateral 1x1 convolutions with a top-down pathway.

    Args:
        in_channels: channels of the feature maps, finest map first.
        width: channels of all output maps.
    """

    def __init__(self, in_channels: Sequence[int], width: int = 32):
        super().__init__()
        self.laterals = nn.ModuleList([nn.Conv2d(c, width, 1) for c in in_channels])
        self.smooth = nn.Conv2d(width, width, 3, padding=1)

    def forward(self, features: Sequence[torch.Tensor]) -> List[torch.Tensor]:
        """Merges the maps from coarse to fine; same order as the input."""
        maps = [lateral(f) for lateral, f in zip(self.laterals, features)]
        for i in range(len(maps) - 1, 0, -1):
            up = F.interpolate(maps[i], size=maps[i - 1].shape[-2:], mode="nearest")
            maps[i - 1] = maps[i - 1] + up
        return [self.smooth(m) for m in maps]


class KeypointNet(nn.Module):
    """Predicts ``keypoints`` heat maps at the finest pyramid level."""

    def __init__(self, keypoints: int, widths: Sequence[int] = (8, 16, 32)):
        super().__init__()
        stages, prev = [], 3
        for w in widths:
            stages.append(nn.Sequential(
                nn.Conv2d(prev, w, 3, stride=2, padding=1), nn.ReLU()))
            prev = w
        self.stages = nn.ModuleList(stages)
        self.pyramid = PyramidHead(widths)
        self.predict = nn.Conv2d(32, keypoints, 1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        features = []
        for stage in self.stages:
            images = stage(images)
            features.append(images)
        return self.predict(self.pyramid(features)[0])
