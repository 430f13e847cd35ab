# target: GraphRegressor.training_step
"""Graph-level regression on padded dense graphs (molecules, small meshes)."""
import torch
from torch import nn
import torch.nn.functional as F


class DenseGraphConv(nn.Module):
    def __init__(self, in_dim: int, out_dim: int):
        super().__init__()
        self.neigh = nn.Linear(in_dim, out_dim, bias=False)
        self.root = nn.Linear(in_dim, out_dim)

    def forward(self, x: torch.Tensor, adj: torch.Tensor) -> torch.Tensor:
        deg = adj.sum(dim=-1, keepdim=True).clamp(min=1)
        return self.root(x) + self.neigh(adj @ x / deg)


class GatedReadout(nn.Module):
    """Attention-style sum over nodes; padded nodes contribute nothing."""

    def __init__(self, dim: int):
        super().__init__()
        self.gate = nn.Linear(dim, 1)
        self.value = nn.Linear(dim, dim)

    def forward(self, h: torch.Tensor, node_mask: torch.Tensor) -> torch.Tensor:
        gate = torch.sigmoid(self.gate(h))
        gate = gate * node_mask.unsqueeze(-1).to(h.dtype)
        return (gate * self.value(h)).sum(dim=1)


class GraphRegressor(nn.Module):
    def __init__(self, in_dim: int, hidden: int = 64, depth: int = 3, lr: float = 1e-3):
        super().__init__()
        self.embed = nn.Linear(in_dim, hidden)
        self.convs = nn.ModuleList(DenseGraphConv(hidden, hidden) for _ in range(depth))
        self.readout = GatedReadout(hidden)
        self.head = nn.Linear(hidden, 1)
        self.optimizer = torch.optim.AdamW(self.parameters(), lr=lr)

    def forward(self, x, adj, node_mask):
        h = self.embed(x)
        for conv in self.convs:
            h = h + F.silu(conv(h, adj))
        return self.head(self.readout(h, node_mask)).squeeze(-1)

    def training_step(self, x, adj, node_mask, y) -> float:
        """One update.

        x: (B, N, F) node features; adj: (B, N, N) 0/1 floats;
        node_mask: (B, N) bool, False on padding; y: (B,) targets.
        """
        self.train()
        self.optimizer.zero_grad()
        loss = F.l1_loss(self(x, adj, node_mask), y)
        loss.backward()
        self.optimizer.step()
        return loss.item()
