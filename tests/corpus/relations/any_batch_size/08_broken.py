"""Mesh convolution on batches of vertex features."""
import torch
import torch.nn as nn


class NeighbourGather(nn.Module):
    """Collects the features of the neighbours of every vertex.

    feats: (batch, vertices, dim), neighbours: (batch, vertices, k) vertex ids
    -> (batch, vertices, k, dim)
    """

    def __init__(self, vertices: int, batch_size: int):
        super().__init__()
        offsets = torch.arange(batch_size).view(-1, 1, 1) * vertices
        self.register_buffer("offsets", offsets, persistent=False)
        self.vertices = vertices

    def forward(self, feats: torch.Tensor, neighbours: torch.Tensor) -> torch.Tensor:
        flat = feats.reshape(-1, feats.size(-1))
        idx = neighbours + self.offsets
        return flat[idx]


class MeshConv(nn.Module):
    """Vertex features (batch, vertices, c_in) to (batch, vertices, c_out)."""

    def __init__(self, c_in: int, c_out: int, vertices: int = 30, batch_size: int = 4):
        super().__init__()
        self.gather = NeighbourGather(vertices, batch_size)
        self.centre = nn.Linear(c_in, c_out)
        self.ring = nn.Linear(c_in, c_out, bias=False)

    def forward(self, feats: torch.Tensor, neighbours: torch.Tensor) -> torch.Tensor:
        near = self.gather(feats, neighbours)
        return torch.relu(self.centre(feats) + self.ring(near - feats.unsqueeze(2)).amax(dim=2))
