# target: Projector.project
# truth: The starting styles are computed by the mapping network with its graph attached, so requires_grad_(True) leaves
#   them a non-leaf tensor and torch.optim.Adam([styles]) in project raises "ValueError: can't optimize a non-leaf
#   Tensor".
"""Projection of an image into the latent space of a style-based generator (GAN inversion)."""
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


class MappingNetwork(nn.Module):
    def __init__(self, dim, depth=4):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(dim, dim) for _ in range(depth))

    def forward(self, z):
        w = F.normalize(z, dim=1) * z.shape[1] ** 0.5
        for layer in self.layers:
            w = F.leaky_relu(layer(w), 0.2)
        return w


class SynthesisNetwork(nn.Module):
    """One style vector per resolution modulates the channels of its block."""

    def __init__(self, dim, channels=32, n_blocks=3):
        super().__init__()
        self.n_blocks = n_blocks
        self.const = nn.Parameter(torch.randn(1, channels, 4, 4))
        self.affine = nn.ModuleList(nn.Linear(dim, channels) for _ in range(n_blocks))
        self.convs = nn.ModuleList(nn.Conv2d(channels, channels, 3, padding=1) for _ in range(n_blocks))
        self.to_rgb = nn.Conv2d(channels, 3, 1)

    def forward(self, styles):
        """styles: (B, n_blocks, dim)."""
        x = self.const.expand(styles.shape[0], -1, -1, -1)
        for i, (affine, conv) in enumerate(zip(self.affine, self.convs)):
            x = F.interpolate(x, scale_factor=2.0, mode="nearest")
            gain = 1.0 + affine(styles[:, i])
            x = F.leaky_relu(conv(x * gain[:, :, None, None]), 0.2)
        return self.to_rgb(x)


@dataclass(frozen=True)
class ProjectionConfig:
    steps: int = 300
    lr: float = 0.05
    n_samples: int = 1024
    prior_weight: float = 1e-3


class Projector:
    def __init__(self, mapping, synthesis, cfg, device):
        self.mapping = mapping.to(device).eval()
        self.synthesis = synthesis.to(device).eval().requires_grad_(False)
        self.cfg, self.device = cfg, device

    def average_style(self):
        z = torch.randn(self.cfg.n_samples, self.mapping.layers[0].in_features, device=self.device)
        return self.mapping(z).mean(dim=0)

    def initial_styles(self, n_images):
        """The average style, separately adjustable for every image and block."""
        start = self.average_style().repeat(n_images, self.synthesis.n_blocks, 1)
        return start.requires_grad_(True)  # error: DG110

    def project(self, images):
        """Returns the styles (B, n_blocks, dim) whose synthesis is closest to images."""
        images = images.to(self.device)
        styles = self.initial_styles(images.shape[0])
        start = styles.detach().clone()
        optimizer = torch.optim.Adam([styles], lr=self.cfg.lr)
        for _ in range(self.cfg.steps):
            loss = F.mse_loss(self.synthesis(styles), images)
            loss = loss + self.cfg.prior_weight * (styles - start).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return styles.detach()
