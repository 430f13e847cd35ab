# target: fit
# truth: state_dict() returns references to the live parameters, so the remembered 'best' weights change with every
#   further step and restore() brings back nothing: the model keeps the weights of the last, worse epoch.
"""Small regression trainer with early stopping on the validation error."""
from __future__ import annotations

import logging
import math
from dataclasses import dataclass, field

import torch
from torch import nn

log = logging.getLogger(__name__)


@dataclass
class EarlyStopper:
    """Remembers the weights of the best epoch; `stale` counts the epochs since then."""

    patience: int = 5
    min_delta: float = 0.0
    best: float = math.inf
    stale: int = 0
    weights: dict = field(default_factory=dict)

    def update(self, score: float, model: nn.Module) -> bool:
        """Record one epoch; True when training should end."""
        if score < self.best - self.min_delta:
            self.best = score
            self.stale = 0
            self.weights = model.state_dict()  # error: DG750
        else:
            self.stale += 1
        return self.stale >= self.patience

    def restore(self, model: nn.Module) -> None:
        if self.weights:
            model.load_state_dict(self.weights)


def run_epoch(model, loader, criterion, device, optimizer=None) -> float:
    training = optimizer is not None
    model.train(training)
    total, seen = torch.zeros((), device=device), 0
    with torch.set_grad_enabled(training):
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            loss = criterion(model(x).squeeze(-1), y)
            if training:
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                optimizer.step()
            total += loss.detach() * len(y)
            seen += len(y)
    return total.item() / seen


def fit(
    model: nn.Module,
    train_loader,
    valid_loader,
    device: torch.device,
    lr: float = 1e-2,
    max_epochs: int = 200,
    patience: int = 5,
) -> float:
    """Train in place; afterwards the model carries the best validation weights, whose error is returned."""
    model.to(device)
    criterion = nn.MSELoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    stopper = EarlyStopper(patience=patience)
    for epoch in range(max_epochs):
        train_error = run_epoch(model, train_loader, criterion, device, optimizer)
        valid_error = run_epoch(model, valid_loader, criterion, device)
        log.info("epoch %d train %.4f valid %.4f", epoch, train_error, valid_error)
        if stopper.update(valid_error, model):
            break
    stopper.restore(model)
    return stopper.best
