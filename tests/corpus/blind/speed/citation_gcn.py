# target: GCN.forward
# truth: The adjacency is normalised by two dense matrix products with torch.diag(...), O(N^3) work, although scaling rows and columns is O(N^2); for 1500 nodes this makes the forward pass several times slower.
"""Two-layer graph convolutional network for a citation graph (dense adjacency)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def random_citation_graph(n: int = 1500, mean_degree: float = 6.0) -> torch.Tensor:
    upper = torch.triu(torch.rand(n, n) < mean_degree / n, diagonal=1).float()
    return upper + upper.t()


class GraphConv(nn.Module):
    def __init__(self, in_features: int, out_features: int):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(in_features, out_features))
        self.bias = nn.Parameter(torch.zeros(out_features))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, x: torch.Tensor, a_hat: torch.Tensor) -> torch.Tensor:
        return a_hat @ (x @ self.weight) + self.bias


class GCN(nn.Module):
    """Kipf & Welling (2017): softmax(A relu(A X W0) W1)."""

    def __init__(self, in_features: int = 64, hidden: int = 16, n_classes: int = 7, dropout: float = 0.5):
        super().__init__()
        self.conv1 = GraphConv(in_features, hidden)
        self.conv2 = GraphConv(hidden, n_classes)
        self.dropout = dropout

    @staticmethod
    def normalize(adj: torch.Tensor) -> torch.Tensor:
        """D^-1/2 (A + I) D^-1/2"""
        a = adj + torch.eye(adj.size(0), device=adj.device)
        d_inv_sqrt = a.sum(dim=1).pow(-0.5)
        return torch.diag(d_inv_sqrt) @ a @ torch.diag(d_inv_sqrt)  # error: DG610

    def forward(self, x: torch.Tensor, adj: torch.Tensor) -> torch.Tensor:
        a_hat = self.normalize(adj)
        h = F.relu(self.conv1(x, a_hat))
        h = F.dropout(h, self.dropout, self.training)
        return self.conv2(h, a_hat)


if __name__ == "__main__":
    torch.manual_seed(0)
    adj = random_citation_graph()
    features, labels = torch.randn(len(adj), 64), torch.randint(0, 7, (len(adj),))
    train_nodes = torch.randperm(len(adj))[:140]
    model = GCN()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    for epoch in range(3):
        loss = F.cross_entropy(model(features, adj)[train_nodes], labels[train_nodes])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(epoch, round(loss.item(), 4))
