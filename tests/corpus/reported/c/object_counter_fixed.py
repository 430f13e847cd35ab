# source: https://github.com/lyongo/NWPU-MOC/issues/4
from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class ConvModule(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, padding: int = 0, with_relu: bool = True):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size, padding=padding)
        self.norm = nn.BatchNorm2d(out_channels)
        self.activate = nn.ReLU() if with_relu else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return self.activate(self.norm(self.conv(x)))


class Backbone(nn.Module):
    def __init__(self, widths: tuple[int, ...] = (8, 16, 24)):
        super().__init__()
        stages, previous = [], 3
        for width in widths:
            stages.append(nn.Sequential(ConvModule(previous, width, 3, padding=1), nn.MaxPool2d(2)))
            previous = width
        self.stages = nn.ModuleList(stages)

    def forward(self, x: Tensor) -> list[Tensor]:
        outs = []
        for stage in self.stages:
            x = stage(x)
            outs.append(x)
        return outs


class PyramidCounter(nn.Module):
    """Density map regression for several object categories on a feature pyramid."""

    def __init__(self, in_channels: tuple[int, ...] = (8, 16, 24), out_channels: int = 16, categories: int = 3):
        super().__init__()
        self.backbone = Backbone(in_channels)
        self.lateral_convs = nn.ModuleList(ConvModule(c, out_channels, 1) for c in in_channels)
        self.fpn_convs = nn.ModuleList(ConvModule(out_channels, out_channels, 3, padding=1) for _ in in_channels)
        self.head = nn.Sequential(nn.Conv2d(out_channels * len(in_channels), 16, 3, padding=1), nn.ReLU(),
                                  nn.Conv2d(16, categories, 1))

    def merge(self, inputs: list[Tensor]) -> list[Tensor]:
        laterals = [conv(inputs[i]) for i, conv in enumerate(self.lateral_convs)]
        for i in range(len(laterals) - 1, 0, -1):
            prev_shape = laterals[i - 1].shape[2:]
            laterals[i - 1] = laterals[i - 1] + F.interpolate(laterals[i], size=prev_shape, mode="nearest")
        return [conv(lateral) for conv, lateral in zip(self.fpn_convs, laterals)]

    def forward(self, image: Tensor) -> Tensor:
        outs = self.merge(self.backbone(image))
        size = outs[0].shape[2:]
        resized = [F.interpolate(o, size=size, mode="bilinear", align_corners=False) for o in outs]
        return self.head(torch.cat(resized, dim=1))


def density_loss(prediction: Tensor, target: Tensor, count_weight: float = 0.1) -> Tensor:
    pixel = F.mse_loss(prediction, target)
    count = F.l1_loss(prediction.sum(dim=(2, 3)), target.sum(dim=(2, 3)))
    return pixel + count_weight * count


def train_step(model: PyramidCounter, optimizer: torch.optim.Optimizer, image: Tensor, target: Tensor) -> float:
    optimizer.zero_grad()
    loss = density_loss(model(image), target)
    loss.backward()
    optimizer.step()
    return loss.item()
