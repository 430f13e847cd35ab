from typing import Optional, Sequence

import torch
import torch.nn as nn
import torch.nn.functional as F


class WeightNormLinear(nn.Module):
    """Linear layer whose weight is split into direction and magnitude.

    Args:
        in_features: size of the input.
        out_features: size of the output.
        bias: whether to add a learned offset.
    """

    def __init__(self, in_features: int, out_features: int, bias: bool = True):
        super().__init__()
        self.direction = nn.Parameter(torch.empty(out_features, in_features))
        self.magnitude = nn.Parameter(torch.empty(out_features, 1))
        self.bias = nn.Parameter(torch.zeros(out_features)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.normal_(self.direction, std=self.direction.shape[1] ** -0.5)
        with torch.no_grad():
            self.magnitude.copy_(self.direction.norm(dim=1, keepdim=True))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        unit = self.direction / self.direction.norm(dim=1, keepdim=True)
        return F.linear(x, self.magnitude * unit, self.bias)


class PINN(nn.Module):
    """Coordinate network with tanh layers, for residuals of differential equations.

    Args:
        sizes: layer sizes including input and output.
        lower: lower corner of the domain, for scaling the inputs.
        upper: upper corner of the domain.
    """

    def __init__(self, sizes: Sequence[int], lower: Optional[torch.Tensor] = None,
                 upper: Optional[torch.Tensor] = None):
        super().__init__()
        self.layers = nn.ModuleList(
            WeightNormLinear(a, b) for a, b in zip(sizes[:-1], sizes[1:]))
        self.register_buffer("lower", lower if lower is not None else -torch.ones(sizes[0]))
        self.register_buffer("upper", upper if upper is not None else torch.ones(sizes[0]))

    def forward(self, coords: torch.Tensor) -> torch.Tensor:
        h = 2 * (coords - self.lower) / (self.upper - self.lower) - 1
        for layer in self.layers[:-1]:
            h = torch.tanh(layer(h))
        return self.layers[-1](h)
