# target: IncrementalTrainer.begin_task
# truth: grow replaces the head by a new nn.Linear, but the optimizer keeps the old head's parameters: from the second
#   task on the head is never updated (and its gradients are never cleared), only the encoder learns; no error.
"""Class-incremental training: the classifier grows with every task that brings new labels."""
from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class GrowingClassifier(nn.Module):
    """MLP encoder with a linear head that can be widened; the rows of known classes are kept."""

    def __init__(self, in_dim: int, hidden: int, num_classes: int):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(in_dim, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.head = nn.Linear(hidden, num_classes)

    def grow(self, num_classes: int) -> None:
        old = self.head
        new = nn.Linear(old.in_features, num_classes, device=old.weight.device, dtype=old.weight.dtype)
        with torch.no_grad():
            new.weight[: old.out_features] = old.weight
            new.bias[: old.out_features] = old.bias
        self.head = new

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.encoder(x))


class IncrementalTrainer:
    """
    >>> trainer = IncrementalTrainer(GrowingClassifier(4, 8, 2))
    >>> trainer.begin_task(5)
    >>> trainer.model.head.out_features
    5
    """

    def __init__(self, model: GrowingClassifier, lr: float = 1e-3, weight_decay: float = 0.0):
        self.model = model
        self.lr = lr
        self.weight_decay = weight_decay
        self.optimizer = self.make_optimizer()

    def make_optimizer(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.model.parameters(), lr=self.lr, weight_decay=self.weight_decay)

    def begin_task(self, num_classes: int) -> None:
        """Make room for all classes seen so far."""
        if num_classes > self.model.head.out_features:
            self.model.grow(num_classes)  # error: DG715

    def fit_task(self, batches, epochs: int = 1) -> list[float]:
        """Mean loss of every epoch over `batches`, a reiterable of (inputs, labels)."""
        device = next(self.model.parameters()).device
        curve = []
        self.model.train()
        for _ in range(epochs):
            losses = []
            for x, y in batches:
                loss = F.cross_entropy(self.model(x.to(device)), y.to(device))
                self.optimizer.zero_grad(set_to_none=True)
                loss.backward()
                self.optimizer.step()
                losses.append(loss.detach())
            curve.append(torch.stack(losses).mean())
        return torch.stack(curve).tolist()
