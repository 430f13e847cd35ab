"""Vector quantisation with exponential moving averages."""
from typing import Tuple

import torch
import torch.nn as nn
import torch.nn.functional as F


class VectorQuantizer(nn.Module):
    """Nearest code lookup.

    z: (batch, length, dim) -> quantised (batch, length, dim), code ids (batch, length)
    """

    def __init__(self, codes: int = 32, dim: int = 16, decay: float = 0.95):
        super().__init__()
        self.decay = decay
        self.register_buffer("codebook", torch.randn(codes, dim))
        self.register_buffer("mass", torch.ones(codes))
        self.register_buffer("total", self.codebook.clone())

    @torch.no_grad()
    def update(self, flat: torch.Tensor, onehot: torch.Tensor) -> None:
        self.mass.mul_(self.decay).add_(onehot.sum(0), alpha=1 - self.decay)
        self.total.mul_(self.decay).add_(onehot.t() @ flat, alpha=1 - self.decay)
        self.codebook.copy_(self.total / self.mass.clamp(min=1e-3).unsqueeze(1))

    def forward(self, z: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
        flat = z.reshape(-1, z.size(-1))
        ids = torch.cdist(flat, self.codebook).argmin(dim=1)
        quant = F.embedding(ids, self.codebook).view_as(z)
        self.update(flat, F.one_hot(ids, len(self.codebook)).to(flat.dtype))
        quant = z + (quant - z).detach()
        return quant, ids.view(z.shape[:-1])
