from typing import Dict, Sequence

import torch
import torch.nn as nn
import torch.nn.functional as F


class ClickModel(nn.Module):
    """Click probability from categorical fields and dense features.

    Args:
        field_sizes: number of values of each categorical field.
        dense: number of dense features.
        dim: size of a field's embedding.
        hidden: sizes of the hidden layers.
    """

    def __init__(self, field_sizes: Sequence[int], dense: int, dim: int = 8,
                 hidden: Sequence[int] = (32, 16)):
        super().__init__()
        self.fields = nn.ModuleList(nn.Embedding(n, dim) for n in field_sizes)
        layers, width = [], dim * len(field_sizes) + dense
        for h in hidden:
            layers += [nn.Linear(width, h), nn.LayerNorm(h), nn.ReLU()]
            width = h
        self.deep = nn.Sequential(*layers)
        self.out = nn.Linear(width, 1)

    def forward(self, fields: torch.Tensor, dense: torch.Tensor) -> torch.Tensor:
        """Probabilities of shape (batch, 1)."""
        embedded = [emb(fields[:, i]) for i, emb in enumerate(self.fields)]
        h = self.deep(torch.cat([*embedded, dense], dim=1))
        return torch.sigmoid(self.out(h))


def train_step(model: ClickModel, optimizer: torch.optim.Optimizer,
               batch: Dict[str, torch.Tensor]) -> float:
    """One step on a batch with ``fields``, ``dense`` and ``clicked``."""
    model.train()
    prob = model(batch["fields"], batch["dense"])
    loss = F.binary_cross_entropy(prob.squeeze(1), batch["clicked"].float())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()
