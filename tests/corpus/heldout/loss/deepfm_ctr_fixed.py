# target: train_epoch
"""DeepFM for click-through prediction; all categorical fields share one embedding table."""
from typing import Sequence

import numpy as np
import torch
from torch import nn


def field_offsets(field_dims: Sequence[int]) -> np.ndarray:
    """Start row of every field in the shared table."""
    return np.cumsum(np.asarray([0, *field_dims[:-1]], dtype=np.int64))


class FieldEmbedding(nn.Module):
    """Looks up (batch, n_fields) category ids in one table of sum(field_dims) rows."""

    def __init__(self, field_dims, dim):
        super().__init__()
        self.table = nn.Embedding(int(sum(field_dims)), dim)
        self.register_buffer("offsets", torch.from_numpy(field_offsets(field_dims)))
        nn.init.xavier_uniform_(self.table.weight)

    def forward(self, x):
        return self.table(x + self.offsets)


class FactorizationMachine(nn.Module):
    """Second-order interactions: half of (square of sum - sum of squares)."""

    def forward(self, v):
        square_of_sum = v.sum(dim=1).pow(2)
        sum_of_square = v.pow(2).sum(dim=1)
        return 0.5 * (square_of_sum - sum_of_square).sum(dim=1)


class DeepFM(nn.Module):
    def __init__(self, field_dims, dim=16, hidden=(64, 32), dropout=0.2):
        super().__init__()
        self.linear = FieldEmbedding(field_dims, 1)
        self.bias = nn.Parameter(torch.zeros(1))
        self.embedding = FieldEmbedding(field_dims, dim)
        self.fm = FactorizationMachine()
        layers, width = [], len(field_dims) * dim
        for h in hidden:
            layers += [nn.Linear(width, h), nn.BatchNorm1d(h), nn.ReLU(), nn.Dropout(dropout)]
            width = h
        self.mlp = nn.Sequential(*layers, nn.Linear(width, 1))

    def forward(self, x):
        """x: int64 ids of shape (batch, n_fields), each in [0, field_dims[i])."""
        v = self.embedding(x)
        first = self.linear(x).sum(dim=(1, 2)) + self.bias
        deep = self.mlp(v.flatten(1)).squeeze(1)
        return first + self.fm(v) + deep


def train_epoch(model, loader, optimizer, device):
    model.train()
    criterion = nn.BCEWithLogitsLoss()
    running = torch.zeros((), device=device)
    for fields, clicked in loader:
        fields, clicked = fields.to(device), clicked.float().to(device)
        loss = criterion(model(fields), clicked)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        running += loss.detach()
    return running.item() / max(len(loader), 1)
