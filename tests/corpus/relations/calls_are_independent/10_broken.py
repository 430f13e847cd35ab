"""Scatter of lidar features into a bird's eye view map."""
import torch
import torch.nn as nn


class BirdsEyeProjector(nn.Module):
    """Sums point features into the cells of a square grid.

    points: (N, 2) in [0, 1), feats: (N, dim) -> (dim, cells, cells)
    """

    def __init__(self, dim: int = 8, cells: int = 12):
        super().__init__()
        self.cells = cells
        self.canvas = torch.zeros(cells * cells, dim)

    def cell_index(self, points: torch.Tensor) -> torch.Tensor:
        ij = (points * self.cells).long().clamp(0, self.cells - 1)
        return ij[:, 0] * self.cells + ij[:, 1]

    def forward(self, points: torch.Tensor, feats: torch.Tensor) -> torch.Tensor:
        canvas = self.canvas
        canvas.index_add_(0, self.cell_index(points), feats.detach())
        return canvas.t().reshape(-1, self.cells, self.cells).clone()


class OccupancyHead(nn.Module):
    """Occupancy logits (1, 1, cells, cells) from points (N, 2) and their features (N, dim)."""

    def __init__(self, dim: int = 8, cells: int = 12):
        super().__init__()
        self.project = BirdsEyeProjector(dim, cells)
        self.conv = nn.Sequential(nn.Conv2d(dim, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 1, 1))

    def forward(self, points: torch.Tensor, feats: torch.Tensor) -> torch.Tensor:
        return self.conv(self.project(points, feats).unsqueeze(0))
