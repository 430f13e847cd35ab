"""Flow based warping."""
from typing import Dict

import torch
import torch.nn as nn
import torch.nn.functional as F


class GridSampler2d(nn.Module):
    """Warps images by a flow field given in pixels.

    image: (batch, C, H, W), flow: (batch, 2, H, W) -> (batch, C, H, W)
    """

    def __init__(self):
        super().__init__()
        self.grids: Dict = {}

    def base_grid(self, h: int, w: int) -> torch.Tensor:
        """Pixel coordinates as (H * W, 2), x before y."""
        key = (h, w)
        if key not in self.grids:
            yy, xx = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
            self.grids[key] = torch.stack([xx, yy], dim=-1).reshape(-1, 2).float()
        return self.grids[key]

    def forward(self, image: torch.Tensor, flow: torch.Tensor) -> torch.Tensor:
        h, w = image.shape[-2:]
        grid = self.base_grid(h, w).view(1, h, w, 2) + flow.permute(0, 2, 3, 1)
        size = torch.tensor([w, h], dtype=grid.dtype)
        grid = (2 * grid + 1) / size - 1
        return F.grid_sample(image, grid, padding_mode="border", align_corners=False)


class FlowRefiner(nn.Module):
    """Warped image (batch, C, H, W) with a learned residual."""

    def __init__(self, channels: int = 3):
        super().__init__()
        self.warp = GridSampler2d()
        self.refine = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, image: torch.Tensor, flow: torch.Tensor) -> torch.Tensor:
        warped = self.warp(image, flow)
        return warped + 0.1 * self.refine(warped)
