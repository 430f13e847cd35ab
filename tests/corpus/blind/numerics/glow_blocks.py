# target: bits_per_dim
# truth: The log-determinant is taken as log(det(W)), but W starts as a random orthogonal matrix with determinant +1 or
#   -1, and log of a negative number is NaN; with several steps nearly every seed gives a NaN loss (with many channels
#   det also under- or overflows).
"""Glow building blocks: ActNorm, invertible 1x1 convolution and affine coupling."""
import math

import torch
import torch.nn.functional as F
from torch import nn


class ActNorm(nn.Module):
    """Per-channel affine layer that starts as the identity."""

    def __init__(self, channels):
        super().__init__()
        self.log_scale = nn.Parameter(torch.zeros(1, channels, 1, 1))
        self.bias = nn.Parameter(torch.zeros(1, channels, 1, 1))

    def forward(self, x):
        log_det = self.log_scale.sum() * x.shape[2] * x.shape[3]
        return (x + self.bias) * self.log_scale.exp(), log_det


class InvertibleConv1x1(nn.Module):
    def __init__(self, channels):
        super().__init__()
        rotation, _ = torch.linalg.qr(torch.randn(channels, channels))
        self.weight = nn.Parameter(rotation)

    def forward(self, x):
        log_abs_det = torch.log(torch.linalg.det(self.weight))  # error: DG410
        y = F.conv2d(x, self.weight[:, :, None, None])
        return y, log_abs_det * x.shape[2] * x.shape[3]


class AffineCoupling(nn.Module):
    def __init__(self, channels, hidden=64):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(channels // 2, hidden, 3, padding=1), nn.ReLU(),
            nn.Conv2d(hidden, hidden, 1), nn.ReLU(),
            nn.Conv2d(hidden, channels, 3, padding=1),
        )
        nn.init.zeros_(self.net[-1].weight)
        nn.init.zeros_(self.net[-1].bias)

    def forward(self, x):
        a, b = x.chunk(2, dim=1)
        raw, shift = self.net(a).chunk(2, dim=1)
        log_s = 2.0 * torch.tanh(raw / 2.0)
        return torch.cat([a, b * log_s.exp() + shift], dim=1), log_s.flatten(1).sum(dim=1)


class Glow(nn.Module):
    """Single-scale Glow on squeezed images; channels is the number of image channels."""

    def __init__(self, channels=3, n_steps=8, hidden=64):
        super().__init__()
        c = 4 * channels
        self.steps = nn.ModuleList(
            nn.ModuleList([ActNorm(c), InvertibleConv1x1(c), AffineCoupling(c, hidden)])
            for _ in range(n_steps)
        )

    def log_prob(self, x):
        z = F.pixel_unshuffle(x, 2)
        log_det = z.new_zeros(z.shape[0])
        for step in self.steps:
            for layer in step:
                z, ld = layer(z)
                log_det = log_det + ld
        z = z.flatten(1)
        return log_det - 0.5 * (z.pow(2).sum(dim=1) + z.shape[1] * math.log(2 * math.pi))


def bits_per_dim(model, x):
    """x in [0, 1) with uniform dequantisation noise of width 1/256 already added."""
    n_dims = x[0].numel()
    return (-model.log_prob(x).mean() / n_dims + math.log(256.0)) / math.log(2.0)
