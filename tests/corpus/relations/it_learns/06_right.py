import math
from typing import Iterable, Iterator

import torch
import torch.nn as nn
import torch.nn.functional as F


class LoRALinear(nn.Module):
    """A frozen linear layer plus a trainable low-rank update.

    Args:
        base: the layer to adapt; its parameters are frozen.
        rank: rank of the update.
        alpha: scale of the update in units of the rank.
    """

    def __init__(self, base: nn.Linear, rank: int = 4, alpha: float = 8.0):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.scaling = alpha / rank
        self.lora_a = nn.Parameter(torch.empty(rank, base.in_features))
        self.lora_b = nn.Parameter(torch.empty(base.out_features, rank))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """The adapted layer starts out equal to the base layer."""
        nn.init.kaiming_uniform_(self.lora_a, a=math.sqrt(5))
        nn.init.zeros_(self.lora_b)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        update = F.linear(F.linear(x, self.lora_a), self.lora_b)
        return self.base(x) + self.scaling * update

    def extra_repr(self) -> str:
        return f"rank={self.lora_a.shape[0]}, scaling={math.floor(self.scaling * 100) / 100}"


def adapt(module: nn.Module, names: Iterable[str] = ("query", "value"), rank: int = 4) -> nn.Module:
    """Freezes ``module`` and replaces its linear layers of the given names."""
    names = set(names)
    module.requires_grad_(False)
    for parent in list(module.modules()):
        for name, child in list(parent.named_children()):
            if name in names and isinstance(child, nn.Linear):
                setattr(parent, name, LoRALinear(child, rank))
    return module


def trainable(module: nn.Module) -> Iterator[nn.Parameter]:
    return (p for p in module.parameters() if p.requires_grad)
