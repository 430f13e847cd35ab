"""Messages along edges: softmax by segments, degrees of zero, distances that are infinite."""

import torch
from torch import nn
import torch.nn.functional as F

device = "cuda" if torch.cuda.is_available() else "cpu"


def scatter_softmax(src, index, n):
    top = torch.full((n,), float("-inf"), device=src.device).scatter_reduce(0, index, src, reduce="amax", include_self=False)
    e = (src - top[index]).exp()
    total = torch.zeros(n, device=src.device).index_add(0, index, e)
    return e / total[index]


class GAT(nn.Module):
    def __init__(self, d, out):
        super().__init__()
        self.lin = nn.Linear(d, out)
        self.att = nn.Parameter(torch.randn(2 * out))

    def forward(self, x, edge):
        src, dst = edge
        h = self.lin(x)
        score = F.leaky_relu((torch.cat([h[src], h[dst]], -1) * self.att).sum(-1), 0.2)
        alpha = scatter_softmax(score, dst, x.size(0))
        return torch.zeros_like(h).index_add(0, dst, alpha[:, None] * h[src])


def gcn_norm(adj):
    deg = adj.sum(1)
    inv = deg.pow(-0.5)
    inv[torch.isinf(inv)] = 0.0
    return inv[:, None] * adj * inv[None, :]


def gcn_norm_masked(adj):
    deg = adj.sum(1)
    inv = deg.rsqrt().masked_fill(deg == 0, 0.0)
    return inv[:, None] * adj * inv[None, :]


def mean_pool(x, batch, n):
    total = torch.zeros(n, x.size(1), device=x.device).index_add(0, batch, x)
    count = torch.bincount(batch, minlength=n).clamp(min=1)
    return total / count.unsqueeze(1)


def shortest(adj):
    dist = torch.where(adj > 0, adj, torch.inf)
    dist.fill_diagonal_(0)
    for k in range(dist.size(0)):
        dist = torch.minimum(dist, dist[:, k, None] + dist[None, k])
    return dist


def main():
    torch.manual_seed(0)
    n = 6
    edge = torch.tensor([[0, 1, 2, 3, 4], [1, 2, 0, 4, 3]], device=device)
    x = torch.randn(n, 4, device=device)
    net = GAT(4, 8).to(device)
    head = nn.Linear(8, 2).to(device)
    opt = torch.optim.Adam([*net.parameters(), *head.parameters()], 0.01)
    y = torch.tensor([0, 1, 0, 1, 0, -100], device=device)
    for _ in range(3):
        loss = F.cross_entropy(head(F.elu(net(x, edge))), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    adj = torch.zeros(n, n, device=device)
    adj[edge[0], edge[1]] = 1.0
    print(gcn_norm(adj).sum().item(), gcn_norm_masked(adj).sum().item(), shortest(adj)[0])
    print(mean_pool(x, torch.tensor([0, 0, 1, 1, 3, 3], device=device), 4))


main()
