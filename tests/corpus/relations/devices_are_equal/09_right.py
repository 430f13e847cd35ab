"""GCN node classification with a symmetric normalised adjacency."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def normalized_adjacency(edge_index, n):
    loops = torch.arange(n, device=edge_index.device).expand(2, n)
    index = torch.cat([edge_index, loops], dim=1)
    value = torch.ones(index.shape[1], device=index.device)
    degree = torch.zeros(n, device=index.device).index_add_(0, index[0], value)
    root = degree.rsqrt()
    return index, value * root[index[0]] * root[index[1]]


class GCN(nn.Module):
    def __init__(self, in_dim, hidden, classes):
        super().__init__()
        self.lin1 = nn.Linear(in_dim, hidden)
        self.lin2 = nn.Linear(hidden, classes)

    @staticmethod
    def propagate(x, index, value):
        message = x[index[1]] * value[:, None]
        return torch.zeros_like(x).index_add_(0, index[0], message)

    def forward(self, x, edge_index):
        index, value = normalized_adjacency(edge_index, len(x))
        h = F.relu(self.propagate(self.lin1(x), index, value))
        return self.propagate(self.lin2(h), index, value)


def two_communities(n=60, seed=0):
    g = torch.Generator().manual_seed(seed)
    label = torch.arange(n) % 2
    p = torch.where(label[:, None] == label[None], 0.2, 0.02)
    adj = (torch.rand(n, n, generator=g) < p).triu(1)
    edges = adj.nonzero().t()
    return torch.randn(n, 8, generator=g), torch.cat([edges, edges.flip(0)], dim=1), label


def main():
    torch.manual_seed(0)
    device = torch.device("cuda:0") if torch.cuda.is_available() else torch.device("cpu")
    x, edges, label = [t.to(device) for t in two_communities()]
    model = GCN(8, 16, 2).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02, weight_decay=5e-4)
    for epoch in range(40):
        loss = F.cross_entropy(model(x, edges)[:20], label[:20])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    accuracy = (model(x, edges)[20:].argmax(1) == label[20:]).float().mean().item()
    print(f"loss {loss.item():.4f}, accuracy {accuracy:.2f}")


if __name__ == "__main__":
    main()
