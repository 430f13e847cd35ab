# target: WeightAverage.update
# truth: The checkpoint is read with map_location='cpu' and, unlike the model and optimizer, the average rebinds its
#   tensors to those CPU copies; after resuming a GPU run the first update() fails with 'RuntimeError: Expected all
#   tensors to be on the same device' at lerp_.
"""Exponential moving average of weights, with checkpoint save and resume."""
import os
from typing import Dict, Union

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

PathLike = Union[str, "os.PathLike[str]"]


class WeightAverage:
    """Keeps an averaged copy of a model's state for evaluation.

    Create it after the model has been moved to its device and call update()
    after every optimizer step.
    """

    def __init__(self, model: nn.Module, decay: float = 0.999):
        self.decay = decay
        self.shadow: Dict[str, Tensor] = {
            name: value.detach().clone() for name, value in model.state_dict().items()
        }

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        for name, value in model.state_dict().items():
            averaged = self.shadow[name]
            if value.is_floating_point():
                averaged.lerp_(value, 1.0 - self.decay)
            else:
                averaged.copy_(value)

    def copy_to(self, model: nn.Module) -> None:
        model.load_state_dict(self.shadow)

    def state_dict(self) -> dict:
        return {"decay": self.decay, "shadow": self.shadow}

    def load_state_dict(self, state: dict) -> None:
        if state["shadow"].keys() != self.shadow.keys():
            raise KeyError("checkpoint and model disagree on parameter names")
        self.decay = state["decay"]
        self.shadow = {name: value.clone() for name, value in state["shadow"].items()}  # error: DG205


def save_checkpoint(
    path: PathLike, model: nn.Module, optimizer: Optimizer, average: WeightAverage, epoch: int
) -> None:
    torch.save(
        {
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "average": average.state_dict(),
            "epoch": epoch,
        },
        path,
    )


def resume(path: PathLike, model: nn.Module, optimizer: Optimizer, average: WeightAverage) -> int:
    """Restores everything in place and returns the epoch to start from.

    Loads through host memory so that resuming does not need a second copy of
    the weights on the GPU.
    """
    checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    average.load_state_dict(checkpoint["average"])
    return checkpoint["epoch"] + 1
