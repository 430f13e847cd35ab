from typing import Dict

import torch
import torch.nn as nn
import torch.nn.functional as F


class DenoisingCoder(nn.Module):
    """Linear encoder with a tanh code and an untied linear decoder."""

    def __init__(self, dim: int, code: int):
        super().__init__()
        self.encode = nn.Linear(dim, code)
        self.decode = nn.Linear(code, dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.decode(torch.tanh(self.encode(x)))

    def penalty(self) -> torch.Tensor:
        """Group sparsity over the code units."""
        return self.encode.weight.norm(dim=1).sum() + self.decode.weight.norm(dim=0).sum()


class SparseCodeStepper:
    """Optimizer steps over a batch that arrives in equal micro-batches.

    Args:
        model: network with a ``penalty`` method.
        strength: factor of the penalty in the objective.
        lr: learning rate.
    """

    def __init__(self, model: DenoisingCoder, strength: float = 1e-2, lr: float = 0.05):
        self.model = model
        self.strength = strength
        self.optimizer = torch.optim.SGD(model.parameters(), lr=lr)

    def step(self, noisy: torch.Tensor, clean: torch.Tensor, parts: int = 4) -> Dict[str, float]:
        """Minimises reconstruction error plus penalty; one optimizer step."""
        logs = {"reconstruction": 0.0, "penalty": 0.0}
        self.optimizer.zero_grad()
        for x, y in zip(noisy.tensor_split(parts), clean.tensor_split(parts)):
            reconstruction = F.mse_loss(self.model(x), y) * len(x) / len(noisy)
            penalty = self.strength * self.model.penalty()
            (reconstruction + penalty).backward()
            logs["reconstruction"] += reconstruction.item()
            logs["penalty"] = penalty.item()
        self.optimizer.step()
        return logs
