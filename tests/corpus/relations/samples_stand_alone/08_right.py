"""Encoder for the depth completion network."""
from typing import List

import torch
from torch import nn, Tensor


def conv_bn_act(c_in: int, c_out: int, stride: int = 1) -> nn.Sequential:
    """3x3 convolution, batch norm, leaky relu."""
    return nn.Sequential(
        nn.Conv2d(c_in, c_out, 3, stride=stride, padding=1, bias=False),
        nn.BatchNorm2d(c_out),
        nn.LeakyReLU(0.1),
    )


class DepthEncoder(nn.Module):
    """Feature pyramid of an RGB image and a sparse depth map.

    rgb: (B, 3, H, W), depth: (B, 1, H, W) with H and W divisible by 4.
    Returns three maps at full, half and quarter resolution.
    """

    def __init__(self, base: int = 8):
        super().__init__()
        self.rgb = conv_bn_act(3, base)
        self.depth = conv_bn_act(1, base)
        self.down1 = conv_bn_act(2 * base, 4 * base, stride=2)
        self.down2 = conv_bn_act(4 * base, 8 * base, stride=2)

    def forward(self, rgb: Tensor, depth: Tensor) -> List[Tensor]:
        full = torch.cat([self.rgb(rgb), self.depth(depth)], dim=1)
        half = self.down1(full)
        quarter = self.down2(half)
        return [full, half, quarter]
