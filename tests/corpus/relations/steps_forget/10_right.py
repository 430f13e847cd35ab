from typing import Optional

import torch
import torch.nn as nn


class ActivationCentering(nn.Module):
    """Subtracts a running mean of the activations.

    Args:
        num_features: size of the last dimension.
        momentum: share of the new batch in the running mean.
    """

    def __init__(self, num_features: int, momentum: float = 0.05):
        super().__init__()
        self.momentum = momentum
        self.gain = nn.Parameter(torch.ones(num_features))
        self.register_buffer("running_mean", torch.zeros(num_features))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training:
            dims = tuple(range(x.dim() - 1))
            batch_mean = x.detach().mean(dim=dims)
            self.running_mean = torch.lerp(self.running_mean, batch_mean, self.momentum)
        return (x - self.running_mean) * self.gain


class CenteredMLP(nn.Module):
    """Feed-forward block with centred hidden activations.

    Args:
        dim: input and output size.
        expansion: hidden size as a multiple of ``dim``.
        dropout: dropout rate after the non-linearity.
    """

    def __init__(self, dim: int, expansion: int = 2, dropout: float = 0.0,
                 out_dim: Optional[int] = None):
        super().__init__()
        self.up = nn.Linear(dim, dim * expansion)
        self.center = ActivationCentering(dim * expansion)
        self.act = nn.GELU()
        self.drop = nn.Dropout(dropout)
        self.down = nn.Linear(dim * expansion, out_dim or dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(self.drop(self.act(self.center(self.up(x)))))
