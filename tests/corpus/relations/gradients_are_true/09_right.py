from typing import Any, Tuple

import torch
import torch.nn as nn


class ScatterMean(torch.autograd.Function):
    """Mean of rows per group, groups without rows give zero."""

    @staticmethod
    def forward(ctx: Any, src: torch.Tensor, index: torch.Tensor, groups: int) -> torch.Tensor:
        total = src.new_zeros(groups, src.shape[1]).index_add_(0, index, src)
        count = src.new_zeros(groups).index_add_(0, index, src.new_ones(len(index)))
        count = count.clamp(min=1.0).unsqueeze(1)
        ctx.save_for_backward(index, count)
        return total / count

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Tuple[torch.Tensor, None, None]:
        index, count = ctx.saved_tensors
        return (grad / count)[index], None, None


def scatter_mean(src: torch.Tensor, index: torch.Tensor, groups: int) -> torch.Tensor:
    """Averages ``src`` (rows, dim) over the rows with the same ``index``."""
    return ScatterMean.apply(src, index, groups)


class SageLayer(nn.Module):
    """GraphSAGE layer with mean aggregation."""

    def __init__(self, in_dim: int, out_dim: int):
        super().__init__()
        self.self_lin = nn.Linear(in_dim, out_dim)
        self.neigh_lin = nn.Linear(in_dim, out_dim, bias=False)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        source, target = edge_index
        message = self.neigh_lin(x)[source]
        return self.self_lin(x) + scatter_mean(message, target, len(x))


class GraphClassifier(nn.Module):
    """Two layers, mean readout per graph and a linear head."""

    def __init__(self, in_dim: int, hidden: int, classes: int):
        super().__init__()
        self.layer1 = SageLayer(in_dim, hidden)
        self.layer2 = SageLayer(hidden, hidden)
        self.head = nn.Linear(hidden, classes)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor, graph: torch.Tensor,
                num_graphs: int) -> torch.Tensor:
        h = torch.relu(self.layer1(x, edge_index))
        h = torch.relu(self.layer2(h, edge_index))
        return self.head(scatter_mean(h, graph, num_graphs))
