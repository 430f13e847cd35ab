# target: script
# source: https://github.com/aiqm/torchani/pull/238
# truth: none, the repaired twin of force_matching.py
"""Fit a small neural potential to energies and forces of random Lennard-Jones clusters."""
import torch
import torch.nn as nn

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)

N_ATOMS, N_TRAIN, EPOCHS = 4, 96, 60
FORCE_WEIGHT = 1.0


def lj_energy(pos):
    i, j = torch.triu_indices(N_ATOMS, N_ATOMS, 1)
    r = (pos[:, i] - pos[:, j]).norm(dim=-1)
    s6 = (1.0 / r) ** 6
    return (s6 * s6 - 2 * s6).sum(-1)


def make_dataset(n):
    base = torch.tensor([[0., 0., 0.], [1.1, 0., 0.], [.55, .95, 0.], [.55, .32, .9]])
    pos = base + 0.05 * torch.randn(n, N_ATOMS, 3)
    pos.requires_grad_(True)
    e = lj_energy(pos)
    f = -torch.autograd.grad(e.sum(), pos)[0]
    return pos.detach(), e.detach(), f.detach()


class PairPotential(nn.Module):
    def __init__(self, n_rbf=16, width=48):
        super().__init__()
        self.register_buffer("centers", torch.linspace(0.7, 2.2, n_rbf))
        self.net = nn.Sequential(nn.Linear(n_rbf, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 1))

    def forward(self, pos):
        i, j = torch.triu_indices(N_ATOMS, N_ATOMS, 1)
        r = (pos[:, i] - pos[:, j]).norm(dim=-1, keepdim=True)
        rbf = torch.exp(-30.0 * (r - self.centers) ** 2)
        return self.net(rbf).squeeze(-1).sum(-1)


def energy_and_forces(model, pos):
    pos = pos.clone().requires_grad_(True)
    energy = model(pos)
    (grad,) = torch.autograd.grad(energy.sum(), pos, create_graph=True)
    return energy, -grad


def batches(*arrays, size=16):
    order = torch.randperm(len(arrays[0]))
    for k in range(0, len(order), size):
        yield [a[order[k:k + size]] for a in arrays]


pos, e, f = make_dataset(N_TRAIN)
vpos, ve, vf = make_dataset(64)
e_mean = e.mean()

model = PairPotential()
opt = torch.optim.Adam(model.parameters(), lr=3e-3)
for epoch in range(EPOCHS):
    for bp, be, bf in batches(pos, e, f):
        pe, pf = energy_and_forces(model, bp)
        loss = ((pe - (be - e_mean)) ** 2).mean() + FORCE_WEIGHT * ((pf - bf) ** 2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    if epoch % 15 == 14:
        pe, pf = energy_and_forces(model, vpos)
        print(f"epoch {epoch + 1:3d}  E mae {(pe - ve + e_mean).abs().mean().item():.4f}"
              f"  F mae {(pf - vf).abs().mean().item():.4f}")
