"""Message passing with index_add on batched random graphs; graph-level regression of the number of edges per node."""
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass
class GraphBatch:
    x: Tensor
    edge_index: Tensor
    graph_of_node: Tensor
    y: Tensor

    def to(self, device) -> "GraphBatch":
        return GraphBatch(*(getattr(self, f).to(device) for f in self.__dataclass_fields__))

    @property
    def num_graphs(self) -> int:
        return self.y.size(0)


def random_graph(g):
    n = int(torch.randint(4, 9, (1,), generator=g))
    adj = torch.rand(n, n, generator=g) < 0.4
    adj.fill_diagonal_(False)
    edges = adj.nonzero().t()
    return torch.ones(n, 4), edges, edges.size(1) / n


def collate(graphs) -> GraphBatch:
    xs, edges, owner, ys, offset = [], [], [], [], 0
    for i, (x, e, y) in enumerate(graphs):
        xs.append(x)
        edges.append(e + offset)
        owner.append(torch.full((x.size(0),), i))
        ys.append(y)
        offset += x.size(0)
    return GraphBatch(torch.cat(xs), torch.cat(edges, dim=1), torch.cat(owner), torch.tensor(ys))


class Layer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.message = nn.Linear(2 * dim, dim)
        self.update = nn.GRUCell(dim, dim)

    def forward(self, h, edge_index):
        src, dst = edge_index
        m = torch.relu(self.message(torch.cat([h[src], h[dst]], dim=1)))
        agg = torch.zeros_like(h).index_add(0, dst, m)
        return self.update(agg, h)


class GNN(nn.Module):
    def __init__(self, n_in=4, dim=16, depth=2):
        super().__init__()
        self.inp = nn.Linear(n_in, dim)
        self.layers = nn.ModuleList([Layer(dim) for _ in range(depth)])
        self.out = nn.Linear(dim, 1)

    def forward(self, b: GraphBatch) -> Tensor:
        h = self.inp(b.x)
        for layer in self.layers:
            h = layer(h, b.edge_index)
        total = h.new_zeros(b.num_graphs, h.size(1)).index_add(0, b.graph_of_node, h)
        count = torch.bincount(b.graph_of_node, minlength=b.num_graphs).unsqueeze(1)
        return self.out(total / count.clamp(min=1)).squeeze(1)


def main():
    torch.manual_seed(0)
    g = torch.Generator().manual_seed(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    graphs = [random_graph(g) for _ in range(160)]
    loader = torch.utils.data.DataLoader(graphs[:128], batch_size=32, shuffle=True, collate_fn=collate)
    model = GNN().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    for epoch in range(15):
        for batch in loader:
            batch = batch.to(device)
            loss = nn.functional.mse_loss(model(batch), batch.y)
            opt.zero_grad()
            loss.backward()
            opt.step()
    model.eval()
    with torch.no_grad():
        test = collate(graphs[128:]).to(device)
        print(f"test mse {nn.functional.mse_loss(model(test), test.y).item():.4f}, variance {test.y.var().item():.4f}")


if __name__ == "__main__":
    main()
