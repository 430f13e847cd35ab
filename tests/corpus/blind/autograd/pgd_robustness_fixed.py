# target: robust_accuracy
"""Adversarial robustness evaluation with projected gradient descent (L-infinity)."""
from typing import Iterable, Tuple

import torch
from torch import nn, Tensor
import torch.nn.functional as F


def project(x_adv: Tensor, x: Tensor, eps: float) -> Tensor:
    """Into the eps-ball around x and the valid pixel range."""
    return torch.clamp(torch.min(torch.max(x_adv, x - eps), x + eps), 0.0, 1.0)


class PGD:
    def __init__(self, model: nn.Module, eps: float = 8 / 255, alpha: float = 2 / 255,
                 steps: int = 10, random_start: bool = True):
        self.model = model
        self.eps, self.alpha, self.steps = eps, alpha, steps
        self.random_start = random_start

    def perturb(self, x: Tensor, y: Tensor) -> Tensor:
        x_adv = x.clone()
        if self.random_start:
            x_adv = project(x_adv + torch.empty_like(x).uniform_(-self.eps, self.eps), x, self.eps)
        x_adv.requires_grad_(True)
        for _ in range(self.steps):
            loss = F.cross_entropy(self.model(x_adv), y)
            loss.backward()
            step = self.alpha * x_adv.grad.sign()
            x_adv = project(x_adv + step, x, self.eps).detach().requires_grad_(True)
        return x_adv.detach()


class SmallConvNet(nn.Module):
    def __init__(self, num_classes: int = 10, width: int = 16):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, width, 3, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, stride=2, padding=1), nn.ReLU(),
            nn.AdaptiveAvgPool2d(4), nn.Flatten(),
        )
        self.fc = nn.Linear(32 * width, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.features(x))


def robust_accuracy(model: nn.Module, loader: Iterable[Tuple[Tensor, Tensor]],
                    eps: float = 8 / 255, steps: int = 10) -> Tuple[float, float]:
    """Returns (clean accuracy, accuracy under attack). Images are in [0, 1].

    Leaves the model in eval mode with frozen parameters: only the input gradient is needed.
    """
    model.eval().requires_grad_(False)
    attack = PGD(model, eps=eps, alpha=eps / 4, steps=steps)
    clean = robust = total = 0
    for x, y in loader:
        x_adv = attack.perturb(x, y)
        with torch.no_grad():
            clean += (model(x).argmax(1) == y).sum().item()
            robust += (model(x_adv).argmax(1) == y).sum().item()
        total += y.numel()
    return clean / total, robust / total
