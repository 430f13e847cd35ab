# target: script
"""Node classification with a two-layer graph convolution."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class GraphConvolution(nn.Module):
    def __init__(self, inputs, outputs, bias=True):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs, bias=bias)

    def forward(self, nodes, adjacency):
        return adjacency @ self.linear(nodes)


class GCN(nn.Module):
    def __init__(self, features, hidden, classes):
        super().__init__()
        self.first = GraphConvolution(features, hidden)
        self.second = GraphConvolution(hidden, classes)

    def forward(self, nodes, adjacency):
        hidden = F.relu(self.first(nodes, adjacency))
        return self.second(F.dropout(hidden, 0.5, self.training), adjacency)


def normalized(edges, count):
    adjacency = torch.eye(count)
    adjacency[edges[0], edges[1]] = 1
    adjacency[edges[1], edges[0]] = 1
    scale = adjacency.sum(dim=1).rsqrt()
    return scale[:, None] * adjacency * scale[None, :]


def main():
    torch.manual_seed(0)
    adjacency = normalized(torch.randint(0, 20, (2, 40)), 20)
    model = GCN(6, 16, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    for _ in range(3):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(torch.randn(20, 6), adjacency), torch.randint(0, 3, (20,)))
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
