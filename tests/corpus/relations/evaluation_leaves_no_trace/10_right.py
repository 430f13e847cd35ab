"""Pre-activation residual blocks for volumetric patches."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class PreActBlock(nn.Module):
    """Activation, convolution, activation, convolution, shortcut.

    x: (batch, channels, D, H, W) -> (batch, channels, D, H, W)
    """

    def __init__(self, channels: int = 4):
        super().__init__()
        self.conv1 = nn.Conv3d(channels, channels, 3, padding=1)
        self.conv2 = nn.Conv3d(channels, channels, 3, padding=1)
        self.gain = nn.Parameter(torch.tensor(0.5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv1(F.relu(x))
        y = self.conv2(F.relu(y, inplace=True))
        return x + self.gain * y


class PatchStack(nn.Module):
    """Two blocks and a voxel classifier, (batch, channels, D, H, W) -> (batch, labels, D, H, W)."""

    def __init__(self, channels: int = 4, labels: int = 3):
        super().__init__()
        self.block1 = PreActBlock(channels)
        self.block2 = PreActBlock(channels)
        self.cls = nn.Conv3d(channels, labels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.cls(self.block2(self.block1(x)))
