from typing import Dict, List

import torch
import torch.nn as nn
import torch.nn.functional as F


class PatchEncoder(nn.Module):
    """Small convolutional classifier over image patches."""

    def __init__(self, in_channels: int = 3, width: int = 16, num_classes: int = 10):
        super().__init__()
        self.stem = nn.Conv2d(in_channels, width, 3, stride=2, padding=1)
        self.body = nn.Sequential(
            nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width * 2, 3, stride=2, padding=1), nn.ReLU(),
        )
        self.head = nn.Linear(width * 2, num_classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        feats = self.body(self.stem(images))
        return self.head(feats.mean(dim=(2, 3)))


class Trainer:
    """Runs optimisation steps and keeps a record of the metrics.

    Args:
        model: the network to train.
        lr: learning rate of the AdamW optimizer.
    """

    def __init__(self, model: nn.Module, lr: float = 1e-3):
        self.model = model
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
        self.history: Dict[str, List] = {"loss": [], "accuracy": []}

    def train_step(self, images: torch.Tensor, labels: torch.Tensor) -> Dict[str, float]:
        """One optimisation step on a batch; returns the metrics of the batch."""
        self.model.train()
        logits = self.model(images)
        loss = F.cross_entropy(logits, labels, label_smoothing=0.1)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

        accuracy = (logits.argmax(dim=1) == labels).float().mean()
        self.history["loss"].append(loss.item())
        self.history["accuracy"].append(accuracy.item())
        return {"loss": float(loss.detach()), "accuracy": float(accuracy)}

    def summary(self, last: int = 50) -> Dict[str, float]:
        """Mean of the last recorded values."""
        out = {}
        for key, values in self.history.items():
            tail = [float(v) for v in values[-last:]]
            out[key] = sum(tail) / max(len(tail), 1)
        return out
