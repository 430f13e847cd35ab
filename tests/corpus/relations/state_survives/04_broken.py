from typing import Any, Dict

import torch
import torch.nn as nn
import torch.nn.functional as F


class ScheduledTrainer:
    """Trains a classifier with warm-up followed by exponential decay.

    The state of a run can be taken with :meth:`state_dict` at any step and
    given to a fresh trainer with :meth:`load_state_dict`.
    """

    def __init__(self, model: nn.Module, lr: float = 0.1, warmup: int = 10,
                 decay: float = 0.98):
        self.model = model
        self.steps = 0
        self.optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)

        def factor(step: int) -> float:
            if step < warmup:
                return (step + 1) / warmup
            return decay ** (step - warmup)

        self.scheduler = torch.optim.lr_scheduler.LambdaLR(self.optimizer, factor)

    def step(self, x: torch.Tensor, y: torch.Tensor) -> float:
        """One optimisation step; returns the loss."""
        self.model.train()
        loss = F.cross_entropy(self.model(x), y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.scheduler.step()
        self.steps += 1
        return loss.item()

    def state_dict(self) -> Dict[str, Any]:
        """Everything needed to go on with the run."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "steps": self.steps,
        }

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.steps = state["steps"]
