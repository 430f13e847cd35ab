# target: fit_step
# truth: The forces are computed with retain_graph=True but without create_graph, so they are constants for autograd:
#   the force term contributes to the loss value but gives the weights no gradient, and only the energies are fitted;
#   nothing raises.
"""Energy and force matching for a small learned interatomic potential."""
from typing import Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class PairPotential(nn.Module):
    """Sum of learned pair energies; smooth in the distances.

    positions: (batch, atoms, 3); species: (atoms,) long, shared by the batch.
    """

    def __init__(self, n_species: int, hidden: int = 64, n_radial: int = 12, cutoff: float = 6.0):
        super().__init__()
        self.embed = nn.Embedding(n_species, 8)
        self.register_buffer("centres", torch.linspace(0.5, cutoff, n_radial))
        self.net = nn.Sequential(
            nn.Linear(n_radial + 8, hidden),
            nn.SiLU(),
            nn.Linear(hidden, hidden),
            nn.SiLU(),
            nn.Linear(hidden, 1),
        )

    def forward(self, positions: Tensor, species: Tensor) -> Tensor:
        n = positions.size(1)
        i, j = torch.triu_indices(n, n, offset=1, device=positions.device)
        dist = torch.linalg.vector_norm(positions[:, i] - positions[:, j], dim=-1, keepdim=True)
        radial = torch.exp(-2.0 * (dist - self.centres) ** 2)
        pair = self.embed(species[i]) + self.embed(species[j])
        pair = pair.expand(positions.size(0), -1, -1)
        return self.net(torch.cat((radial, pair), dim=-1)).sum(dim=(1, 2))


def energy_and_forces(
    model: nn.Module, positions: Tensor, species: Tensor, training: bool
) -> Tuple[Tensor, Tensor]:
    """Energies (batch,) and forces (batch, atoms, 3) as the negative gradient."""
    positions = positions.detach().requires_grad_(True)
    energy = model(positions, species)
    (grad,) = torch.autograd.grad(energy.sum(), positions, retain_graph=training)  # error: DG116
    if not training:
        energy = energy.detach()
    return energy, -grad


def matching_loss(
    model: nn.Module,
    positions: Tensor,
    species: Tensor,
    energies: Tensor,
    forces: Tensor,
    force_weight: float = 50.0,
) -> Tensor:
    n_atoms = positions.size(1)
    energy, pred_forces = energy_and_forces(model, positions, species, training=True)
    energy_term = F.mse_loss(energy / n_atoms, energies / n_atoms)
    force_term = F.mse_loss(pred_forces, forces)
    return energy_term + force_weight * force_term


def fit_step(model: nn.Module, optimizer: torch.optim.Optimizer, frame) -> Tensor:
    """One step on (positions, species, energies, forces)."""
    model.train()
    loss = matching_loss(model, *frame)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()
