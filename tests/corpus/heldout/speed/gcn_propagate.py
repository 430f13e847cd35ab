# target: train_step
# truth: propagate walks over the edges in Python and reads both node numbers with .item(): two device-to-host
#   synchronisations and several tiny kernels per edge and layer, so a step on a graph of a few thousand edges takes
#   seconds with the GPU idle.
"""Hand-written two-layer GCN for node classification on a single graph."""
import torch
import torch.nn.functional as F
from torch import Tensor, nn


def add_self_loops(edge_index: Tensor, n_nodes: int) -> Tensor:
    loops = torch.arange(n_nodes, device=edge_index.device).expand(2, -1)
    return torch.cat([edge_index, loops], dim=1)


def symmetric_norm(edge_index: Tensor, n_nodes: int) -> Tensor:
    """1 / sqrt(deg(src) * deg(dst)) for every edge; self loops are already in edge_index."""
    src, dst = edge_index
    deg = torch.zeros(n_nodes, device=edge_index.device)
    deg.index_add_(0, dst, torch.ones_like(dst, dtype=deg.dtype))
    inv_sqrt = deg.rsqrt()
    return inv_sqrt[src] * inv_sqrt[dst]


def propagate(x: Tensor, edge_index: Tensor, weight: Tensor) -> Tensor:
    """Weighted sum of the neighbours' features for every node."""
    rows = [[] for _ in range(x.shape[0])]
    for e in range(edge_index.shape[1]):
        src, dst = edge_index[0, e].item(), edge_index[1, e].item()  # error: DG601|DG607
        rows[dst].append(weight[e] * x[src])
    return torch.stack([torch.stack(r).sum(dim=0) for r in rows])


class GCNConv(nn.Module):
    def __init__(self, in_dim: int, out_dim: int):
        super().__init__()
        self.lin = nn.Linear(in_dim, out_dim, bias=False)
        self.bias = nn.Parameter(torch.zeros(out_dim))
        nn.init.xavier_uniform_(self.lin.weight)

    def forward(self, x: Tensor, edge_index: Tensor, weight: Tensor) -> Tensor:
        return propagate(self.lin(x), edge_index, weight) + self.bias


class GCN(nn.Module):
    """
    >>> net = GCN(8, 16, 3)
    >>> net(torch.randn(4, 8), torch.tensor([[0, 1, 2], [1, 2, 3]])).shape
    torch.Size([4, 3])
    """

    def __init__(self, in_dim: int, hidden: int, n_classes: int, dropout: float = 0.5):
        super().__init__()
        self.conv1 = GCNConv(in_dim, hidden)
        self.conv2 = GCNConv(hidden, n_classes)
        self.dropout = dropout

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        edge_index = add_self_loops(edge_index, x.shape[0])
        weight = symmetric_norm(edge_index, x.shape[0])
        h = F.relu(self.conv1(F.dropout(x, self.dropout, self.training), edge_index, weight))
        return self.conv2(F.dropout(h, self.dropout, self.training), edge_index, weight)


def train_step(model: GCN, optimizer, x: Tensor, edge_index: Tensor, y: Tensor, train_idx: Tensor) -> Tensor:
    model.train()
    loss = F.cross_entropy(model(x, edge_index)[train_idx], y[train_idx])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()


@torch.no_grad()
def accuracy(model: GCN, x: Tensor, edge_index: Tensor, y: Tensor, idx: Tensor) -> float:
    model.eval()
    pred = model(x, edge_index).argmax(dim=-1)
    return (pred[idx] == y[idx]).float().mean().item()
