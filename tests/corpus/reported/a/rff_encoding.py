# source: https://github.com/jmclong/random-fourier-features-pytorch/issues/2
# target: CoordinateField.forward
# truth: the sampled frequency matrix is a plain attribute, so field.to("cuda") leaves it on the CPU and the
#   first forward with CUDA coordinates fails with a device mismatch in the matmul (and it is not in the state_dict)
"""Random Fourier feature encodings and a small coordinate field built on them."""
import math
from typing import Optional, Sequence

import torch
from torch import Tensor, nn


def sample_b(sigma: float, size: Sequence[int]) -> Tensor:
    """Draw a frequency matrix from N(0, sigma^2)."""
    return torch.randn(*size) * sigma


def gaussian_encoding(v: Tensor, b: Tensor) -> Tensor:
    """Map coordinates (..., in) to features (..., 2 * n_freq)."""
    vp = 2.0 * math.pi * v @ b.T
    return torch.cat((torch.cos(vp), torch.sin(vp)), dim=-1)


def positional_encoding(v: Tensor, sigma: float, m: int) -> Tensor:
    """Log-linear frequencies per input dimension, flattened on the last axis."""
    j = torch.arange(m, device=v.device)
    coeffs = 2.0 * math.pi * sigma ** (j / m)
    vp = coeffs * v.unsqueeze(-1)
    return torch.cat((torch.cos(vp), torch.sin(vp)), dim=-1).flatten(-2, -1)


class GaussianEncoding(nn.Module):
    def __init__(
        self,
        sigma: Optional[float] = None,
        input_size: Optional[int] = None,
        encoded_size: Optional[int] = None,
        b: Optional[Tensor] = None,
    ):
        super().__init__()
        if b is None:
            if sigma is None or input_size is None or encoded_size is None:
                raise ValueError("'sigma', 'input_size' and 'encoded_size' are required when 'b' is not given")
            b = sample_b(sigma, (encoded_size, input_size))
        elif sigma is not None or input_size is not None or encoded_size is not None:
            raise ValueError("only 'b' may be given when it is given")
        self.b = b  # culprit

    @property
    def out_features(self) -> int:
        return 2 * self.b.shape[0]

    def forward(self, v: Tensor) -> Tensor:
        return gaussian_encoding(v, self.b)


class PositionalEncoding(nn.Module):
    def __init__(self, sigma: float, m: int, input_size: int):
        super().__init__()
        self.sigma = sigma
        self.m = m
        self.out_features = 2 * m * input_size

    def forward(self, v: Tensor) -> Tensor:
        return positional_encoding(v, self.sigma, self.m)


class CoordinateField(nn.Module):
    """MLP from encoded coordinates to a signal."""

    def __init__(self, in_dim: int = 2, out_dim: int = 3, width: int = 64, depth: int = 3, encoding: str = "gaussian"):
        super().__init__()
        if encoding == "gaussian":
            self.encoding = GaussianEncoding(sigma=10.0, input_size=in_dim, encoded_size=width)
        elif encoding == "positional":
            self.encoding = PositionalEncoding(sigma=10.0, m=8, input_size=in_dim)
        else:
            raise ValueError(f"unknown encoding {encoding!r}")
        layers = []
        features = self.encoding.out_features
        for _ in range(depth - 1):
            layers += [nn.Linear(features, width), nn.ReLU(inplace=True)]
            features = width
        layers.append(nn.Linear(features, out_dim))
        self.body = nn.Sequential(*layers)

    def forward(self, coords: Tensor) -> Tensor:
        return torch.sigmoid(self.body(self.encoding(coords)))
