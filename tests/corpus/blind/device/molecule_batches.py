# target: train_epoch
# truth: In the dict branch the moved values are thrown away and the dict is returned with its CPU tensors, so on a GPU
#   the embedding fails: "Expected all tensors to be on the same device, but got index is on cpu, different from other
#   tensors on cuda:0 (when checking argument in method wrapper_CUDA__index_select)".
"""Moving nested molecule batches to the training device, and the small network that consumes them."""
from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


def to_device(item: Any, device: torch.device) -> Any:
    """Tensors inside dicts, lists and tuples are moved; everything else is passed through."""
    if isinstance(item, Tensor):
        return item.to(device, non_blocking=True)
    if isinstance(item, (list, tuple)):
        return type(item)(to_device(v, device) for v in item)
    if isinstance(item, dict):
        for value in item.values():
            to_device(value, device)  # error: DG202|DG205
    return item


def collate(molecules: list[dict]) -> dict:
    """Concatenate atoms of all molecules; `owner` says which molecule an atom belongs to.

    Every molecule has "species" (n,), "positions" (n, 3), "energy" () and "name".
    """
    sizes = torch.tensor([len(m["species"]) for m in molecules])
    return {
        "atoms": {
            "species": torch.cat([m["species"] for m in molecules]),
            "positions": torch.cat([m["positions"] for m in molecules]),
            "owner": torch.repeat_interleave(torch.arange(len(molecules)), sizes),
        },
        "energy": torch.stack([m["energy"] for m in molecules]),
        "names": [m["name"] for m in molecules],
    }


class AtomicEnergies(nn.Module):
    """Sum of per-atom contributions that depend on the species and the distance to the centroid."""

    def __init__(self, num_species: int = 100, dim: int = 32):
        super().__init__()
        self.species = nn.Embedding(num_species, dim)
        self.contribution = nn.Sequential(nn.Linear(dim + 1, dim), nn.SiLU(), nn.Linear(dim, 1))

    def forward(self, atoms: dict[str, Tensor], num_molecules: int) -> Tensor:
        owner, positions = atoms["owner"], atoms["positions"]
        count = positions.new_zeros(num_molecules).index_add_(0, owner, torch.ones_like(positions[:, 0]))
        centroid = positions.new_zeros(num_molecules, 3).index_add_(0, owner, positions) / count.unsqueeze(1)
        spread = (positions - centroid[owner]).square().sum(dim=1, keepdim=True)
        per_atom = self.contribution(torch.cat([self.species(atoms["species"]), spread], dim=1)).squeeze(1)
        return per_atom.new_zeros(num_molecules).index_add_(0, owner, per_atom)


def train_epoch(model: AtomicEnergies, loader, optimizer, device: torch.device) -> Tensor:
    """Mean squared error over one pass."""
    model.train()
    total = torch.zeros((), device=device)
    batches = 0
    for batch in loader:
        batch = to_device(batch, device)
        predicted = model(batch["atoms"], len(batch["names"]))
        loss = nn.functional.mse_loss(predicted, batch["energy"])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        total += loss.detach()
        batches += 1
    return total / max(batches, 1)
