# target: training_step
# truth: The attention weights are multiplied in place although softmax saved its output for the backward pass, so backward() raises "one of the variables needed for gradient computation has been modified by an inplace operation".
"""Graph attention network on dense adjacency matrices (small molecules)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class DenseGATLayer(nn.Module):
    def __init__(self, in_dim, out_dim, slope=0.2):
        super().__init__()
        self.proj = nn.Linear(in_dim, out_dim, bias=False)
        self.src = nn.Linear(out_dim, 1, bias=False)
        self.dst = nn.Linear(out_dim, 1, bias=False)
        self.slope = slope

    def forward(self, h, adj, edge_weight=None):
        """h: (B, N, F); adj: (B, N, N) with self-loops; edge_weight: (B, N, N) or None."""
        h = self.proj(h)
        scores = self.src(h) + self.dst(h).transpose(1, 2)
        scores = F.leaky_relu(scores, self.slope)
        scores = scores.masked_fill(adj == 0, float("-inf"))
        attn = torch.softmax(scores, dim=-1)
        if edge_weight is not None:
            attn *= edge_weight  # error: DG101
        return torch.bmm(attn, h)


class MoleculeRegressor(nn.Module):
    def __init__(self, in_dim=9, hidden=32):
        super().__init__()
        self.gat1 = DenseGATLayer(in_dim, hidden)
        self.gat2 = DenseGATLayer(hidden, hidden)
        self.head = nn.Linear(hidden, 1)

    def forward(self, h, adj, edge_weight):
        h = F.elu(self.gat1(h, adj, edge_weight))
        h = F.elu(self.gat2(h, adj, edge_weight))
        return self.head(h.mean(dim=1)).squeeze(-1)


def make_batch(batch=8, nodes=12, feats=9):
    h = torch.randn(batch, nodes, feats)
    adj = (torch.rand(batch, nodes, nodes) < 0.3).float()
    adj = ((adj + adj.transpose(1, 2) + torch.eye(nodes)) > 0).float()
    edge_weight = adj * torch.rand(batch, nodes, nodes)
    return h, adj, edge_weight, torch.randn(batch)


def training_step(model: MoleculeRegressor, optimizer: torch.optim.Optimizer) -> float:
    model.train()
    h, adj, edge_weight, y = make_batch()
    optimizer.zero_grad(set_to_none=True)
    loss = F.smooth_l1_loss(model(h, adj, edge_weight), y)
    loss.backward()
    optimizer.step()
    return loss.item()


if __name__ == "__main__":
    torch.manual_seed(1)
    net = MoleculeRegressor()
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
    for step in range(20):
        print(step, training_step(net, opt))
