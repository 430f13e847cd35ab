# source: https://github.com/torchgeo/torchgeo/pull/3232
"""Joint radar and optical encoder with two-dimensional ALiBi attention bias."""
import itertools
import math

import torch
from torch import Tensor, nn


def get_2dalibi(num_heads: int, num_patches: int) -> Tensor:
    """Distance-proportional bias of shape [1, heads, patches, patches]."""
    side = int(math.sqrt(num_patches))
    points = list(itertools.product(range(side), range(side)))

    def slopes(n: int) -> list[float]:
        start = 2 ** (-(2 ** -(math.log2(n) - 3)))
        return [start * start ** i for i in range(n)]

    heads = torch.tensor(slopes(num_heads)).unsqueeze(1)
    dist = [math.dist(p, q) for p in points for q in points]
    bias = heads * torch.tensor(dist).unsqueeze(0) * -1
    return bias.view(1, num_heads, num_patches, num_patches)


class FeedForward(nn.Sequential):
    def __init__(self, dim: int, mult: int = 4) -> None:
        super().__init__(nn.LayerNorm(dim), nn.Linear(dim, dim * mult), nn.GELU(), nn.Linear(dim * mult, dim))


class Attention(nn.Module):
    def __init__(self, dim: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.scale = (dim // num_heads) ** -0.5
        self.norm = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, dim * 3, bias=False)
        self.out = nn.Linear(dim, dim)

    def forward(self, x: Tensor, relative_position_bias: Tensor) -> Tensor:
        b, n, d = x.shape
        qkv = self.qkv(self.norm(x)).view(b, n, 3, self.num_heads, d // self.num_heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) * self.scale
        attn = (scores + relative_position_bias).softmax(dim=-1)
        return self.out((attn @ v).transpose(1, 2).reshape(b, n, d))


class Transformer(nn.Module):
    def __init__(self, dim: int, depth: int, num_heads: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.ModuleList([Attention(dim, num_heads), FeedForward(dim)]) for _ in range(depth)
        )
        self.norm_out = nn.LayerNorm(dim)

    def forward(self, x: Tensor, relative_position_bias: Tensor) -> Tensor:
        for attn, ffn in self.layers:
            x = x + attn(x, relative_position_bias)
            x = x + ffn(x)
        return self.norm_out(x)


class ViT(nn.Module):
    def __init__(self, dim: int, depth: int, in_channels: int, patch_size: int, num_heads: int) -> None:
        super().__init__()
        self.patch_embed = nn.Conv2d(in_channels, dim, patch_size, stride=patch_size)
        self.transformer = Transformer(dim, depth, num_heads)

    def forward(self, x: Tensor, attn_bias: Tensor) -> Tensor:
        tokens = self.patch_embed(x).flatten(2).transpose(1, 2)
        return self.transformer(tokens, relative_position_bias=attn_bias)


class RadarOpticalModel(nn.Module):
    def __init__(self, modalities: tuple[str, ...] = ("sar", "optical"), encoder_dim: int = 32,
                 encoder_depth: int = 2, num_heads: int = 4, patch_size: int = 4, image_size: int = 16) -> None:
        super().__init__()
        if any(m not in ("sar", "optical") for m in modalities):
            raise ValueError(f"unknown modality in {modalities}")
        self.modalities = modalities
        self.num_patches = (image_size // patch_size) ** 2
        channels = {"sar": 2, "optical": 12}
        self.encoders = nn.ModuleDict(
            {m: ViT(encoder_dim, encoder_depth, channels[m], patch_size, num_heads) for m in modalities}
        )
        self.register_buffer("attn_bias", get_2dalibi(num_heads, self.num_patches))
        self.pool = nn.Sequential(nn.LayerNorm(encoder_dim), nn.Linear(encoder_dim, encoder_dim))

    def forward(self, **images: Tensor) -> dict[str, Tensor]:
        out: dict[str, Tensor] = {}
        for name in self.modalities:
            tokens = self.encoders[name](images[name], self.attn_bias)
            out[f"{name}_encodings"] = tokens
            out[f"{name}_gap"] = self.pool(tokens.mean(dim=1))
        return out


def croma_tiny(**kwargs) -> RadarOpticalModel:
    return RadarOpticalModel(encoder_dim=16, encoder_depth=1, **kwargs)
