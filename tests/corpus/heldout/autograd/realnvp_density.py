# target: fit_epoch
# truth: CouplingLayer.forward multiplies log_s in place, but log_s is the output of torch.tanh, which tanh's backward
#   needs; every training step fails in nll.backward() with 'RuntimeError: one of the variables needed for gradient
#   computation has been modified by an inplace operation: [torch.FloatTensor [B, D]], which is output 0 of Tanh, is at
#   version 1; expected version 0 instead.'
"""Affine coupling flow for tabular density estimation (RealNVP with alternating masks)."""
import math

import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_


class ScaleShiftNet(nn.Module):
    """Predicts a bounded log-scale and a shift from the conditioning half."""

    def __init__(self, dim, hidden=64):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(dim, hidden), nn.ReLU(),
            nn.Linear(hidden, hidden), nn.ReLU(),
        )
        self.head = nn.Linear(hidden, 2 * dim)

    def forward(self, x):
        raw, shift = self.head(self.body(x)).chunk(2, dim=-1)
        return torch.tanh(raw), shift


class CouplingLayer(nn.Module):
    def __init__(self, dim, flip, hidden=64):
        super().__init__()
        mask = (torch.arange(dim) % 2 == int(flip)).float()
        self.register_buffer("mask", mask)
        self.net = ScaleShiftNet(dim, hidden)

    def forward(self, x):
        kept = x * self.mask
        log_s, shift = self.net(kept)
        free = 1.0 - self.mask
        log_s *= free  # error: DG101
        y = kept + free * (x * log_s.exp() + shift)
        return y, log_s.sum(dim=-1)

    def inverse(self, y):
        kept = y * self.mask
        log_s, shift = self.net(kept)
        return kept + (1.0 - self.mask) * (y - shift) * (-log_s).exp()


class RealNVP(nn.Module):
    def __init__(self, dim, n_layers=6, hidden=64):
        super().__init__()
        self.dim = dim
        self.layers = nn.ModuleList(
            CouplingLayer(dim, flip=i % 2 == 1, hidden=hidden) for i in range(n_layers)
        )

    def log_prob(self, x):
        log_det = x.new_zeros(x.shape[0])
        for layer in self.layers:
            x, ld = layer(x)
            log_det = log_det + ld
        base = -0.5 * (x.pow(2).sum(dim=-1) + self.dim * math.log(2 * math.pi))
        return base + log_det

    @torch.no_grad()
    def sample(self, n):
        z = torch.randn(n, self.dim, device=self.layers[0].mask.device)
        for layer in reversed(self.layers):
            z = layer.inverse(z)
        return z


def fit_epoch(flow, loader, optimizer, device, max_norm=5.0):
    """One pass of maximum likelihood; returns the mean negative log-likelihood."""
    flow.train()
    total, seen = torch.zeros((), device=device), 0
    for (x,) in loader:
        x = x.to(device)
        nll = -flow.log_prob(x).mean()
        optimizer.zero_grad()
        nll.backward()
        clip_grad_norm_(flow.parameters(), max_norm)
        optimizer.step()
        total += nll.detach() * x.shape[0]
        seen += x.shape[0]
    return total.item() / seen
