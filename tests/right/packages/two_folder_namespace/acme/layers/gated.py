"""Gated layers; `acme` has no __init__ and is a namespace package."""
import torch
from torch import nn


class GatedLinear(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.both = nn.Linear(n_in, 2 * n_out)

    def forward(self, x):
        return nn.functional.glu(self.both(x), dim=-1)


class Residual(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return x + self.inner(x)


def gated_stack(dim, depth):
    return nn.Sequential(*(Residual(nn.Sequential(nn.LayerNorm(dim), GatedLinear(dim, dim))) for _ in range(depth)))


def parameter_norm(module):
    """For logging only."""
    with torch.no_grad():
        return torch.stack([p.norm() for p in module.parameters()]).norm().item()
