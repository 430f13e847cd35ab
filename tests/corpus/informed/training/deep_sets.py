# target: script
# truth: The layers stand in a plain list: the module does not know them, and the optimizer gets an empty or incomplete
#   list of parameters, so that they are never trained.
"""Set regression with per-element and pooled layers."""

import torch
from torch import nn


class DeepSet(nn.Module):
    def __init__(self, size: int = 4, widths: tuple = (16, 16, 8)) -> None:
        super().__init__()
        self.elements = []  # error: DG741
        for width in widths:
            self.elements.append(nn.Linear(size, width))
            size = width
        self.readout = nn.Sequential(nn.Linear(size, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, sets: torch.Tensor) -> torch.Tensor:
        for layer in self.elements:
            sets = torch.relu(layer(sets))
        return self.readout(sets.mean(dim=1)).squeeze(-1)


def fit(model: nn.Module, sets: torch.Tensor, targets: torch.Tensor, steps: int = 5) -> float:
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(sets), targets)
        loss.backward()
        optimizer.step()
    return loss.item()


if __name__ == "__main__":
    torch.manual_seed(0)
    sets = torch.randn(32, 7, 4)
    print(fit(DeepSet(), sets, sets.amax(dim=(1, 2))))
