from typing import Tuple

import torch
import torch.nn as nn


class ChannelStandardize(nn.Module):
    """Standardises every channel of an image over its pixels.

    Unlike instance normalisation it returns the statistics, so that a result can
    be mapped back to the units of the input.
    """

    def forward(self, x: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        mean = x.mean(dim=(-2, -1), keepdim=True)
        std = ((x - mean).pow(2).mean(dim=(-2, -1), keepdim=True) + 1e-6).sqrt()
        return (x - mean) / std, mean, std


class BandSharpener(nn.Module):
    """Residual refinement of multi-band satellite images.

    Args:
        bands: number of bands.
        width: channels of the hidden layer.
    """

    def __init__(self, bands: int, width: int = 24):
        super().__init__()
        self.standardize = ChannelStandardize()
        self.body = nn.Sequential(
            nn.Conv2d(bands, width, 3, padding=1, padding_mode="reflect"), nn.ReLU(),
            nn.Conv2d(width, bands, 3, padding=1, padding_mode="reflect"),
        )

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        z, mean, std = self.standardize(image)
        return (z + self.body(z)) * std + mean


def refine_tiles(model: nn.Module, tiles: torch.Tensor, batch: int = 8) -> torch.Tensor:
    """Applies the model to (N, bands, H, W) tiles in batches without gradients."""
    with torch.no_grad():
        return torch.cat([model(part) for part in tiles.split(batch)])
