from typing import Dict

import torch
import torch.nn as nn
import torch.nn.functional as F


def label_smoothed_targets(labels: torch.Tensor, classes: int, smoothing: float) -> torch.Tensor:
    """Soft targets of shape (batch, classes)."""
    onehot = torch.eye(classes)[labels]
    return onehot * (1 - smoothing) + smoothing / classes


class MixupClassifier(nn.Module):
    """Image classifier that trains on convex combinations of samples.

    Args:
        classes: number of classes.
        width: channels of the first block.
        smoothing: label smoothing.
        alpha: parameter of the Beta distribution of the mixing weight.
    """

    def __init__(self, classes: int, width: int = 16, smoothing: float = 0.1, alpha: float = 0.2):
        super().__init__()
        self.classes, self.smoothing = classes, smoothing
        self.beta = torch.distributions.Beta(alpha, alpha)
        self.features = nn.Sequential(
            nn.Conv2d(3, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 3, padding=1), nn.BatchNorm2d(2 * width), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        )
        self.fc = nn.Linear(2 * width, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.fc(self.features(images))

    def training_step(self, batch: Dict[str, torch.Tensor]) -> torch.Tensor:
        """Loss of a batch with ``images`` and ``labels``."""
        images, labels = batch["images"], batch["labels"]
        lam = self.beta.sample().item()
        targets = label_smoothed_targets(labels, self.classes, self.smoothing)
        images = lam * images + (1 - lam) * images.flip(0)
        targets = lam * targets + (1 - lam) * targets.flip(0)
        log_prob = F.log_softmax(self(images), dim=-1)
        return -(targets * log_prob).sum(dim=-1).mean()
