# target: EdgeEncoding.forward
# source: https://github.com/leffff/graphormer-pyg/issues/4
# truth: none, the repaired twin of edge_encoding_pairs.py
import time

import torch
from torch import Tensor, nn

MAX_PATH = 4


def ring_graph(n: int, chords: int, gen: torch.Generator) -> Tensor:
    src = torch.arange(n)
    edges = torch.stack([src, (src + 1) % n])
    extra = torch.randint(0, n, (2, chords), generator=gen)
    edges = torch.cat([edges, extra], 1)
    edges = edges[:, edges[0] != edges[1]]
    return torch.unique(torch.cat([edges, edges.flip(0)], 1), dim=1)


def shortest_edge_paths(edge_index: Tensor, n: int) -> Tensor:
    """(n, n, MAX_PATH) indices of the edges along one shortest path, -1 where there is none"""
    out = torch.full((n, n, MAX_PATH), -1)
    neighbours = [[] for _ in range(n)]
    for e, (u, v) in enumerate(edge_index.t().tolist()):
        neighbours[u].append((v, e))
    for s in range(n):
        frontier, paths = [s], {s: []}
        for _ in range(MAX_PATH):
            nxt = []
            for u in frontier:
                for v, e in neighbours[u]:
                    if v not in paths:
                        paths[v] = paths[u] + [e]
                        nxt.append(v)
            frontier = nxt
        for v, p in paths.items():
            out[s, v, :len(p)] = torch.tensor(p, dtype=torch.long)
    return out


class EdgeEncoding(nn.Module):
    def __init__(self, edge_dim: int) -> None:
        super().__init__()
        self.edge_vector = nn.Parameter(torch.randn(MAX_PATH, edge_dim) * 0.1)

    def forward(self, edge_attr: Tensor, paths: Tensor) -> Tensor:
        valid = paths >= 0
        per_step = edge_attr @ self.edge_vector.t()
        terms = per_step[paths.clamp(min=0), torch.arange(MAX_PATH)] * valid
        return terms.sum(-1) / valid.sum(-1).clamp(min=1)


class GraphAttentionLayer(nn.Module):
    def __init__(self, dim: int, edge_dim: int) -> None:
        super().__init__()
        self.qkv = nn.Linear(dim, 3 * dim)
        self.edge = EdgeEncoding(edge_dim)

    def forward(self, x: Tensor, edge_attr: Tensor, paths: Tensor) -> Tensor:
        q, k, v = self.qkv(x).chunk(3, -1)
        a = q @ k.t() * x.size(-1) ** -0.5 + self.edge(edge_attr, paths)
        return x + a.softmax(-1) @ v


def main(n: int = 40, steps: int = 4) -> None:
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(0)
    edges = ring_graph(n, 12, gen)
    paths = shortest_edge_paths(edges, n)
    edge_attr = torch.rand(edges.size(1), 6, generator=gen)
    x = torch.randn(n, 16, generator=gen)
    target = torch.zeros(n).index_add(0, edges[0], edge_attr[:, 0])
    layer, head = GraphAttentionLayer(16, 6), nn.Linear(16, 1)
    opt = torch.optim.Adam([*layer.parameters(), *head.parameters()], lr=5e-3)
    start = time.perf_counter()
    for _ in range(steps):
        loss = (head(layer(x, edge_attr, paths)).squeeze(-1) - target).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(f"loss {loss.item():.4f}, {(time.perf_counter() - start) / steps * 1e3:.1f} ms per step")


if __name__ == "__main__":
    main()
