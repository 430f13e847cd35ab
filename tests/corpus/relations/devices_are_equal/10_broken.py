from typing import Tuple

import torch
import torch.nn as nn


class PatchMasker(nn.Module):
    """Keeps a random subset of patches, reproducibly for a seed.

    Args:
        ratio: share of the patches that are hidden.
        seed: seed of the masker's own random stream.
    """

    def __init__(self, ratio: float = 0.75, seed: int = 0):
        super().__init__()
        self.ratio = ratio
        self.generator = torch.Generator().manual_seed(seed)

    def forward(self, patches: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
        """Returns the visible patches (B, K, D) and the order (N,) of all patches."""
        n = patches.shape[1]
        visible = max(1, int(n * (1 - self.ratio)))
        order = torch.randperm(n, generator=self.generator, device=patches.device)
        return patches[:, order[:visible]], order


class MaskedAutoencoder(nn.Module):
    """Reconstructs hidden patches from the visible ones."""

    def __init__(self, patches: int, patch_dim: int, dim: int = 32, heads: int = 4,
                 ratio: float = 0.75):
        super().__init__()
        self.masker = PatchMasker(ratio)
        self.embed = nn.Linear(patch_dim, dim)
        self.pos = nn.Parameter(torch.randn(1, patches, dim) * 0.02)
        self.mask_token = nn.Parameter(torch.zeros(1, 1, dim))
        layer = dict(nhead=heads, dim_feedforward=2 * dim, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoderLayer(dim, **layer)
        self.decoder = nn.TransformerEncoderLayer(dim, **layer)
        self.out = nn.Linear(dim, patch_dim)

    def forward(self, patches: torch.Tensor) -> torch.Tensor:
        """Mean squared error over the hidden patches of (B, N, P)."""
        tokens, order = self.masker(self.embed(patches) + self.pos)
        seen = self.encoder(tokens)
        hidden = self.mask_token.expand(len(patches), patches.shape[1] - seen.shape[1], -1)
        full = torch.cat([seen, hidden], dim=1) + self.pos[:, order]
        pred = self.out(self.decoder(full))
        k = seen.shape[1]
        return (pred[:, k:] - patches[:, order[k:]]).pow(2).mean()
