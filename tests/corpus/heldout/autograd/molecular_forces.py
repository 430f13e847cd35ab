# target: fit
# truth: PairPotential.forces takes the gradient of the energy without create_graph, so the force term of the loss has no path to the parameters; silent, only the energy term trains the model (force weight has no effect).
"""Fit a small pair potential to energies and forces of clusters of atoms."""
import torch
from torch import nn


def reference(pos):
    """Morse clusters: energy (batch,) and forces (batch, atoms, 3)."""
    pos = pos.clone().requires_grad_(True)
    r = pair_distances(pos)
    energy = ((1 - torch.exp(-1.3 * (r - 1.2))) ** 2 - 1).sum(1)
    (grad,) = torch.autograd.grad(energy.sum(), pos)
    return energy.detach(), -grad


def pair_distances(pos):
    n = pos.shape[1]
    i, j = torch.triu_indices(n, n, offset=1)
    return (pos[:, i] - pos[:, j]).norm(dim=-1)


class PairPotential(nn.Module):
    def __init__(self, basis=16, hidden=32, cutoff=5.0):
        super().__init__()
        self.register_buffer("centres", torch.linspace(0.3, cutoff, basis))
        self.net = nn.Sequential(nn.Linear(basis, hidden), nn.SiLU(), nn.Linear(hidden, 1))

    def energy(self, pos):
        r = pair_distances(pos)
        feats = torch.exp(-4.0 * (r[..., None] - self.centres) ** 2)
        return self.net(feats).squeeze(-1).sum(1)

    def forces(self, energy, pos):
        (grad,) = torch.autograd.grad(energy.sum(), pos, retain_graph=True)  # error: DG116
        return -grad

    def forward(self, pos):
        pos = pos.clone().requires_grad_(True)
        energy = self.energy(pos)
        return energy, self.forces(energy, pos)


def sample_clusters(count, atoms, generator):
    base = torch.tensor([[0, 0, 0], [1.2, 0, 0], [0, 1.2, 0], [0, 0, 1.2], [1.1, 1.1, 0.5]])
    return base[:atoms] + 0.12 * torch.randn(count, atoms, 3, generator=generator)


def fit(steps=150, force_weight=20.0, lr=5e-3):
    g = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    pos = sample_clusters(64, 5, g)
    energy, force = reference(pos)
    model = PairPotential()
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    for step in range(steps):
        optimizer.zero_grad()
        e, f = model(pos)
        loss_e = (e - energy).pow(2).mean()
        loss_f = (f - force).pow(2).mean()
        loss = loss_e + force_weight * loss_f
        loss.backward()
        optimizer.step()
        if step % 50 == 0 or step == steps - 1:
            print(f"{step:4d} energy {loss_e.item():.4f} force {loss_f.item():.4f}")
    return model


if __name__ == "__main__":
    fit()
