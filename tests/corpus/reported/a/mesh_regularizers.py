# source: https://github.com/akanazawa/cmr/issues/11
# target: FlatnessLoss.forward
# truth: sqrt of a squared length that is exactly zero (an opposite vertex on top of an end of the shared edge) has an
#   infinite derivative: the loss value is finite but the gradient of the vertices is NaN
"""Priors on deformable meshes: vertices (batch, V, 3), faces (F, 3)."""
from collections import defaultdict

import torch
from torch import nn


def edge_pairs(faces):
    """Rows (v0, v1, v2, v3): the shared edge v0-v1 and the opposite vertices of the two faces."""
    owners = defaultdict(list)
    for face in faces.tolist():
        for i in range(3):
            a, b, opposite = face[i], face[(i + 1) % 3], face[(i + 2) % 3]
            owners[(min(a, b), max(a, b))].append(opposite)
    rows = [(a, b, opp[0], opp[1]) for (a, b), opp in owners.items() if len(opp) == 2]
    return torch.tensor(rows, dtype=torch.long).reshape(-1, 4)


class FlatnessLoss(nn.Module):
    """Penalises sharp dihedral angles between neighbouring faces."""

    def __init__(self, faces, average=True, eps=1e-6):
        super().__init__()
        pairs = edge_pairs(faces)
        for i in range(4):
            self.register_buffer(f"v{i}s", pairs[:, i])
        self.average = average
        self.eps = eps

    def _height(self, base, edge):
        """Component of ``base`` orthogonal to ``edge``, with its length."""
        edge_sq = edge.square().sum(-1, keepdim=True)
        along = (base * edge).sum(-1, keepdim=True) / (edge_sq + self.eps) * edge
        vec = base - along
        length = torch.sqrt(vec.square().sum(-1))  # culprit
        return vec, length

    def forward(self, vertices):
        p0, p1 = vertices[:, self.v0s], vertices[:, self.v1s]
        p2, p3 = vertices[:, self.v2s], vertices[:, self.v3s]
        edge = p1 - p0
        h2, l2 = self._height(p2 - p0, edge)
        h3, l3 = self._height(p3 - p0, edge)
        cos = (h2 * h3).sum(-1) / (l2 * l3 + self.eps)
        loss = (cos + 1).square().sum(-1)
        return loss.mean() if self.average else loss


class LaplacianLoss(nn.Module):
    def __init__(self, n_vertices, faces):
        super().__init__()
        lap = torch.zeros(n_vertices, n_vertices)
        for a, b, c in faces.tolist():
            for i, j in ((a, b), (b, c), (c, a)):
                lap[i, j] = lap[j, i] = -1.0
        degree = -lap.sum(1, keepdim=True)
        lap.diagonal().copy_(degree.squeeze(1))
        self.register_buffer("lap", lap / degree.clamp(min=1))

    def forward(self, vertices):
        return (self.lap @ vertices).square().sum(-1).mean()


class MeshPrior(nn.Module):
    def __init__(self, n_vertices, faces, w_flat=0.1, w_lap=1.0, w_deform=0.05):
        super().__init__()
        self.flat = FlatnessLoss(faces)
        self.lap = LaplacianLoss(n_vertices, faces)
        self.weights = {"flat": w_flat, "lap": w_lap, "deform": w_deform}

    def forward(self, mean_shape, delta):
        vertices = mean_shape + delta
        terms = {
            "flat": self.flat(vertices),
            "lap": self.lap(vertices),
            "deform": delta.square().sum(-1).mean(),
        }
        total = sum(self.weights[k] * v for k, v in terms.items())
        return total, terms
