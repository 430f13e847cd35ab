"""Patch embedding and a small mixer on top."""
import torch
import torch.nn as nn


class PatchEmbed(nn.Module):
    """Images (B, 3, S, S) to patch tokens (B, N, dim)."""

    def __init__(self, patch: int = 4, dim: int = 32):
        super().__init__()
        self.proj = nn.Conv2d(3, dim, patch, stride=patch)
        self.norm = nn.LayerNorm(dim)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = self.proj(images)
        b, d, h, w = x.shape
        x = x.flatten(2).permute(2, 0, 1).reshape(b, h * w, d)
        return self.norm(x)


class MixerBlock(nn.Module):
    """Mixes tokens and then channels of (B, N, dim)."""

    def __init__(self, tokens: int, dim: int):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.tok = nn.Sequential(nn.Linear(tokens, 2 * tokens), nn.GELU(), nn.Linear(2 * tokens, tokens))
        self.norm2 = nn.LayerNorm(dim)
        self.chan = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.tok(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.chan(self.norm2(x))


class TinyMixer(nn.Module):
    """Classifier for images (B, 3, 16, 16), returns (B, classes)."""

    def __init__(self, classes: int = 10, dim: int = 32):
        super().__init__()
        self.embed = PatchEmbed(4, dim)
        self.block = MixerBlock(16, dim)
        self.head = nn.Linear(dim, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.head(self.block(self.embed(images)).mean(dim=1))
