# target: asymmetric_loss
"""Asymmetric loss for multi-label classification of images with few positives."""

import torch
import torch.nn as nn


def asymmetric_loss(logits: torch.Tensor, targets: torch.Tensor, gamma_negative: float = 4.0, gamma_positive: float = 1.0):
    """Focal terms with different strengths for positives and negatives."""
    probabilities = torch.sigmoid(logits)
    positive = targets * torch.nn.functional.logsigmoid(logits) * (1 - probabilities) ** gamma_positive
    negative = (1 - targets) * torch.nn.functional.logsigmoid(-logits) * probabilities**gamma_negative
    return -(positive + negative).sum(dim=1).mean()


class MultiLabel(nn.Module):
    def __init__(self, features: int = 32, labels: int = 14):
        super().__init__()
        self.head = nn.Linear(features, labels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 30.0 * nn.functional.normalize(x, dim=1) @ nn.functional.normalize(self.head.weight, dim=1).t()


def train(model, loader, optimizer):
    for x, targets in loader:
        optimizer.zero_grad()
        loss = asymmetric_loss(model(x), targets)
        loss.backward()
        optimizer.step()


def main():
    torch.manual_seed(0)
    model = MultiLabel()
    data = [(model.head.weight.detach()[:8] * 3, (torch.rand(8, 14) < 0.1).float()) for _ in range(2)]
    train(model, data, torch.optim.SGD(model.parameters(), lr=0.1))


if __name__ == "__main__":
    main()
