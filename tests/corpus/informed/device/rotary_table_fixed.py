# target: script
"""Rotary position embedding in a small decoder block."""

import torch
from torch import nn
from torch.nn import functional as F


def rotate(x: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, dim=-1)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1)


class RotaryAttention(nn.Module):
    def __init__(self, width: int, heads: int, base: float = 10_000.0) -> None:
        super().__init__()
        self.heads = heads
        self.size = width // heads
        self.projection = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        inverse = base ** (-torch.arange(0, self.size, 2).float() / self.size)
        self.register_buffer("inverse", inverse, persistent=False)

    def angles(self, length: int) -> torch.Tensor:
        positions = torch.arange(length, device=self.inverse.device).float()
        return positions[:, None] * self.inverse[None, :]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = self.projection(x).view(batch, length, 3, self.heads, self.size).permute(2, 0, 3, 1, 4)
        angles = self.angles(length)
        mixed = F.scaled_dot_product_attention(rotate(q, angles), rotate(k, angles), v, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


def main() -> None:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    block = RotaryAttention(32, 4).to(device)
    tokens = torch.randn(2, 10, 32, device=device)
    block(tokens).square().mean().backward()


if __name__ == "__main__":
    main()
