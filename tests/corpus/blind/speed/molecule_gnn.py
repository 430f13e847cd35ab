# target: script
# truth: Slow: anomaly detection, a debugging aid, is left on for the whole training; it records a Python stack trace for every forward operation and checks every gradient for NaN.
"""Train a message-passing network on molecule properties (solubility regression)."""
import time
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn


@dataclass
class Settings:
    seed: int = 11
    n_graphs: int = 320
    batch_graphs: int = 16
    atom_types: int = 9
    dim: int = 32
    rounds: int = 6
    epochs: int = 3
    lr: float = 1e-3


def setup(s: Settings) -> None:
    np.random.seed(s.seed)
    torch.manual_seed(s.seed)
    torch.autograd.set_detect_anomaly(True)  # error: DG616


class MPNN(nn.Module):
    def __init__(self, s: Settings):
        super().__init__()
        self.rounds = s.rounds
        self.embed = nn.Embedding(s.atom_types, s.dim)
        self.message = nn.Sequential(nn.Linear(2 * s.dim, s.dim), nn.SiLU(), nn.Linear(s.dim, s.dim))
        self.update = nn.GRUCell(s.dim, s.dim)
        self.readout = nn.Sequential(nn.Linear(s.dim, s.dim), nn.SiLU(), nn.Linear(s.dim, 1))

    def forward(self, atoms, edges, graph_id, n_graphs):
        h = self.embed(atoms)
        src, dst = edges
        for _ in range(self.rounds):
            m = self.message(torch.cat([h[src], h[dst]], dim=1))
            h = self.update(torch.zeros_like(h).index_add(0, dst, m), h)
        pooled = h.new_zeros(n_graphs, h.size(1)).index_add(0, graph_id, h)
        return self.readout(pooled).squeeze(1)


def random_molecule(s: Settings):
    n = int(np.random.randint(6, 20))
    atoms = torch.randint(0, s.atom_types, (n,))
    parent = torch.tensor([np.random.randint(0, i) for i in range(1, n)])
    child = torch.arange(1, n)
    edges = torch.stack([torch.cat([parent, child]), torch.cat([child, parent])])
    return atoms, edges, (atoms < 3).float().mean() - 0.05 * n


def collate(molecules):
    atoms, edges, graph_id, y, offset = [], [], [], [], 0
    for k, (a, e, target) in enumerate(molecules):
        atoms.append(a)
        edges.append(e + offset)
        graph_id.append(torch.full((len(a),), k))
        y.append(target)
        offset += len(a)
    return torch.cat(atoms), torch.cat(edges, dim=1), torch.cat(graph_id), torch.stack(y)


def main():
    s = Settings()
    setup(s)
    loader = torch.utils.data.DataLoader(
        [random_molecule(s) for _ in range(s.n_graphs)], s.batch_graphs, shuffle=True, collate_fn=collate
    )
    model = MPNN(s)
    optimizer = torch.optim.Adam(model.parameters(), lr=s.lr)
    for epoch in range(s.epochs):
        start, total = time.perf_counter(), 0.0
        for atoms, edges, graph_id, y in loader:
            loss = nn.functional.mse_loss(model(atoms, edges, graph_id, len(y)), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch}: mse {total / len(loader):.4f} ({time.perf_counter() - start:.2f}s)")


if __name__ == "__main__":
    main()
