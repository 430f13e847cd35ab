"""Spectral graph convolution on dense adjacency matrices."""
from typing import Dict

import torch
import torch.nn as nn


class SpectralGCN(nn.Module):
    """Two layer graph convolution.

    x: (nodes, features), adj: (nodes, nodes) symmetric, non negative
    -> (nodes, classes)
    """

    def __init__(self, features: int = 6, hidden: int = 16, classes: int = 3):
        super().__init__()
        self.lin1 = nn.Linear(features, hidden)
        self.lin2 = nn.Linear(hidden, classes)
        self._norm_adj: Dict[int, torch.Tensor] = {}

    def normalised(self, adj: torch.Tensor) -> torch.Tensor:
        """D^-1/2 (A + I) D^-1/2"""
        n = adj.size(0)
        a = adj + torch.eye(n, dtype=adj.dtype)
        d = a.sum(dim=1).rsqrt()
        return d[:, None] * a * d[None, :]

    def forward(self, x: torch.Tensor, adj: torch.Tensor) -> torch.Tensor:
        a = self.normalised(adj)
        h = torch.relu(a @ self.lin1(x))
        return a @ self.lin2(h)


def label_propagation(labels: torch.Tensor, adj: torch.Tensor, steps: int = 5, alpha: float = 0.8) -> torch.Tensor:
    """Soft labels (nodes, classes) smoothed over the graph."""
    walk = adj / adj.sum(dim=1, keepdim=True).clamp(min=1e-6)
    out = labels
    for _ in range(steps):
        out = alpha * walk @ out + (1 - alpha) * labels
    return out
