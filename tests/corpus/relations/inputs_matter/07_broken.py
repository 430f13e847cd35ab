"""Message passing with edge weights on sparse graphs."""
from typing import Optional

import torch
import torch.nn as nn
from torch import Tensor


class WeightedGCNLayer(nn.Module):
    """Graph convolution with symmetric normalisation.

    x: (num_nodes, in_dim); edge_index: (2, num_edges) source and target ids;
    edge_weight: (num_edges,) non negative, all ones when not given.
    Returns (num_nodes, out_dim).
    """

    def __init__(self, in_dim: int, out_dim: int):
        super().__init__()
        self.lin = nn.Linear(in_dim, out_dim, bias=False)
        self.bias = nn.Parameter(torch.zeros(out_dim))

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Optional[Tensor] = None) -> Tensor:
        src, dst = edge_index
        edge_weight = x.new_ones(edge_index.size(1))
        n = x.size(0)
        deg = x.new_ones(n).index_add(0, dst, edge_weight)
        inv = deg.rsqrt()
        coef = inv[src] * edge_weight * inv[dst]
        h = self.lin(x)
        out = (inv * inv)[:, None] * h
        out = out.index_add(0, dst, coef[:, None] * h[src])
        return out + self.bias


class GCN(nn.Module):
    """Two layer node classifier."""

    def __init__(self, in_dim: int, hidden: int, classes: int):
        super().__init__()
        self.conv1 = WeightedGCNLayer(in_dim, hidden)
        self.conv2 = WeightedGCNLayer(hidden, classes)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Optional[Tensor] = None) -> Tensor:
        x = torch.relu(self.conv1(x, edge_index, edge_weight))
        return self.conv2(x, edge_index, edge_weight)
