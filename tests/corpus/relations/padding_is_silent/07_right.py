import torch
import torch.nn as nn
import torch.nn.functional as F


class GraphAttention(nn.Module):
    """Dense graph attention on padded molecules (every atom sees every atom)."""

    def __init__(self, dim, edge_types=4):
        super().__init__()
        self.query = nn.Linear(dim, dim)
        self.key = nn.Linear(dim, dim)
        self.value = nn.Linear(dim, dim)
        self.bias = nn.Embedding(edge_types, 1)

    def forward(self, h, bonds, node_mask):
        s = torch.einsum("bid,bjd->bij", self.query(h), self.key(h)) / h.shape[-1] ** 0.5
        s = s + self.bias(bonds).squeeze(-1)
        s = s.masked_fill(~node_mask[:, None, :], -1e9)
        return torch.einsum("bij,bjd->bid", s.softmax(-1), self.value(h))


class MolNet(nn.Module):
    def __init__(self, atoms=20, dim=32, layers=2):
        super().__init__()
        self.embed = nn.Embedding(atoms, dim)
        self.layers = nn.ModuleList(GraphAttention(dim) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(layers))
        self.out = nn.Linear(dim, 1)

    def forward(self, atoms, bonds, node_mask):
        h = self.embed(atoms)
        for layer, norm in zip(self.layers, self.norms):
            h = norm(h + F.relu(layer(h, bonds, node_mask)))
        energy = self.out(h).squeeze(-1) * node_mask
        return energy.sum(1)


def random_molecules(sizes, n_max):
    b = len(sizes)
    atoms = torch.zeros(b, n_max, dtype=torch.long)
    bonds = torch.zeros(b, n_max, n_max, dtype=torch.long)
    mask = torch.zeros(b, n_max, dtype=torch.bool)
    for i, n in enumerate(sizes):
        atoms[i, :n] = torch.randint(1, 20, (n,))
        e = torch.randint(0, 4, (n, n)).triu(1)
        bonds[i, :n, :n] = e + e.t()
        mask[i, :n] = True
    return atoms, bonds, mask


if __name__ == "__main__":
    torch.manual_seed(3)
    net = MolNet()
    atoms, bonds, mask = random_molecules([9, 5, 7], 9)
    net.eval()
    with torch.no_grad():
        print("energies", net(atoms, bonds, mask))
