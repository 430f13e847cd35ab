from typing import List, Sequence

import torch
import torch.nn as nn
import torch.nn.functional as F


class DepthNet(nn.Module):
    """Predicts inverse depth at several scales.

    Args:
        width: channels of the hidden maps.
        scales: number of output scales, each half the size of the one before.
    """

    def __init__(self, width: int = 16, scales: int = 3):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, padding=1)
        self.downs = nn.ModuleList(
            nn.Conv2d(width, width, 3, stride=2, padding=1) for _ in range(scales - 1))
        self.outs = nn.ModuleList(nn.Conv2d(width, 1, 1) for _ in range(scales))

    def forward(self, images: torch.Tensor) -> List[torch.Tensor]:
        h = F.elu(self.stem(images))
        maps = [self.outs[0](h)]
        for down, out in zip(self.downs, self.outs[1:]):
            h = F.elu(down(h))
            maps.append(out(h))
        return maps


class MultiScaleTrainer:
    """Weighted sum of L1 losses over the scales."""

    def __init__(self, model: nn.Module, weights: Sequence[float] = (1.0, 0.5, 0.25),
                 lr: float = 1e-3):
        self.model = model
        self.weights = weights
        self.optimizer = torch.optim.Adam(model.parameters(), lr=lr)

    def train_step(self, images: torch.Tensor, depth: torch.Tensor) -> float:
        """One step on images (B, 3, H, W) and depth (B, 1, H, W)."""
        losses = []
        for weight, pred in zip(self.weights, self.model(images)):
            target = F.adaptive_avg_pool2d(depth, pred.shape[-2:])
            losses.append(weight * F.l1_loss(pred, target))
        loss = torch.stack(losses).sum()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()
