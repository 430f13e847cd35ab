# target: MultiTask.training_loss
# truth: `torch.tensor([...])` of the weighted task losses copies their values and cuts the graph; backward() raises
#   "element 0 of tensors does not require grad".
"""Several heads on one trunk, their losses weighted by configuration."""

from dataclasses import dataclass, field

import torch
from torch import nn


@dataclass
class TaskConfig:
    names: tuple = ("age", "income", "tenure")
    weights: dict = field(default_factory=lambda: {"age": 1.0, "income": 0.5, "tenure": 0.25})


class MultiTask(nn.Module):
    def __init__(self, features: int = 20, config: TaskConfig | None = None):
        super().__init__()
        self.config = config or TaskConfig()
        self.trunk = nn.Sequential(nn.Linear(features, 64), nn.GELU(), nn.Linear(64, 32), nn.GELU())
        self.heads = nn.ModuleDict({name: nn.Linear(32, 1) for name in self.config.names})

    def forward(self, rows: torch.Tensor) -> dict[str, torch.Tensor]:
        hidden = self.trunk(rows)
        return {name: head(hidden).squeeze(-1) for name, head in self.heads.items()}

    def training_loss(self, rows: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        predictions = self(rows)
        losses = [
            self.config.weights[name] * nn.functional.mse_loss(predictions[name], targets[:, column])
            for column, name in enumerate(self.config.names)
        ]
        return torch.tensor(losses).sum()  # error: DG105|DG106


def fit(model, loader, epochs=1):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(epochs):
        for rows, targets in loader:
            optimizer.zero_grad()
            model.training_loss(rows, targets).backward()
            optimizer.step()


if __name__ == "__main__":
    batches = [(torch.randn(16, 20), torch.randn(16, 3)) for _ in range(4)]
    fit(MultiTask(), batches)
