from typing import Callable, Dict, Iterable, Tuple

import torch
import torch.nn as nn


class GradientStore:
    """Collects parameter gradients outside of ``.grad``.

    Lets the caller inspect (or drop) the gradient of a micro-batch before it
    enters the sum that the optimizer sees.
    """

    def __init__(self, model: nn.Module):
        self.model = model
        self.store: Dict[str, torch.Tensor] = {}

    def reset(self) -> None:
        self.store.clear()

    def add(self, weight: float = 1.0) -> None:
        """Takes the current gradients, times ``weight``, and clears them."""
        for name, param in self.model.named_parameters():
            if param.grad is None:
                continue
            grad = param.grad.detach() * weight
            self.store[name] = grad.clone()
            param.grad = None

    def write_back(self) -> None:
        """Puts the collected gradients into ``.grad``."""
        for name, param in self.model.named_parameters():
            if name in self.store:
                param.grad = self.store[name]


def accumulate_and_step(model: nn.Module, optimizer: torch.optim.Optimizer,
                        batches: Iterable[Tuple[torch.Tensor, torch.Tensor]],
                        loss_fn: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
                        skip_non_finite: bool = True) -> int:
    """One optimizer step on equal micro-batches; returns how many were used."""
    batches = list(batches)
    collector = GradientStore(model)
    optimizer.zero_grad()
    used = 0
    for x, y in batches:
        loss = loss_fn(model(x), y)
        if skip_non_finite and not torch.isfinite(loss):
            continue
        loss.backward()
        collector.add(weight=1.0 / len(batches))
        used += 1
    collector.write_back()
    optimizer.step()
    collector.reset()
    return used
