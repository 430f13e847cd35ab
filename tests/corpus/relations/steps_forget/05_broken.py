"""Mini-batch training of a graph network with historical node embeddings."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def ring_graph(n, extra, seed=0):
    g = torch.Generator().manual_seed(seed)
    src = torch.arange(n)
    edges = torch.stack([src, (src + 1) % n])
    more = torch.randint(0, n, (2, extra), generator=g)
    edges = torch.cat([edges, edges.flip(0), more, more.flip(0)], dim=1)
    adj = torch.zeros(n, n)
    adj[edges[0], edges[1]] = 1.0
    adj.fill_diagonal_(1.0)
    return adj / adj.sum(dim=1, keepdim=True)


class HistoryGCN(nn.Module):
    def __init__(self, num_nodes, in_dim, hidden, classes):
        super().__init__()
        self.lin1 = nn.Linear(in_dim, hidden)
        self.lin2 = nn.Linear(hidden, classes)
        self.register_buffer("history", torch.zeros(num_nodes, hidden))

    def forward(self, x, adj, nodes):
        fresh = F.relu(self.lin1(adj[nodes] @ x))
        table = self.history.clone()
        table[nodes] = fresh
        self.history = table
        return self.lin2(adj[nodes] @ table)


def train(model, x, adj, labels, epochs=5, batch=16):
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    total = []
    for _ in range(epochs):
        for nodes in torch.randperm(len(x)).split(batch):
            logits = model(x, adj, nodes)
            loss = F.cross_entropy(logits, labels[nodes])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total.append(loss.item())
    return total


if __name__ == "__main__":
    torch.manual_seed(0)
    n = 64
    adj = ring_graph(n, 40)
    x = torch.randn(n, 12)
    labels = (x[:, 0] > 0).long()
    losses = train(HistoryGCN(n, 12, 24, 2), x, adj, labels)
    print("first", round(losses[0], 3), "last", round(losses[-1], 3))
