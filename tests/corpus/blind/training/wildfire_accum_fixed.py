# target: SegTrainer.train_one_epoch
"""Burned-area segmentation from Sentinel-2 bands, with gradient accumulation for small GPUs."""
from typing import Any, Dict, Iterable, Tuple

import torch
from torch import Tensor, nn

DEFAULTS: Dict[str, Any] = {"lr": 1e-3, "accum_steps": 4, "grad_clip": None, "dice_weight": 0.5, "device": "cpu"}


class DoubleConv(nn.Sequential):
    def __init__(self, cin: int, cout: int):
        super().__init__(
            nn.Conv2d(cin, cout, 3, padding=1), nn.GroupNorm(4, cout), nn.ReLU(),
            nn.Conv2d(cout, cout, 3, padding=1), nn.GroupNorm(4, cout), nn.ReLU(),
        )


class SmallUNet(nn.Module):
    def __init__(self, bands: int = 6, width: int = 16):
        super().__init__()
        self.enc1 = DoubleConv(bands, width)
        self.enc2 = DoubleConv(width, 2 * width)
        self.pool = nn.MaxPool2d(2)
        self.up = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.dec = DoubleConv(2 * width, width)
        self.out = nn.Conv2d(width, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        a = self.enc1(x)
        b = self.enc2(self.pool(a))
        return self.out(self.dec(torch.cat([a, self.up(b)], dim=1)))


def dice_loss(logits: Tensor, target: Tensor, eps: float = 1.0) -> Tensor:
    p = torch.sigmoid(logits)
    inter = (p * target).sum(dim=(1, 2, 3))
    return (1 - (2 * inter + eps) / (p.sum(dim=(1, 2, 3)) + target.sum(dim=(1, 2, 3)) + eps)).mean()


class SegTrainer:
    def __init__(self, model: nn.Module, **overrides: Any):
        self.cfg = {**DEFAULTS, **overrides}
        self.model = model.to(self.cfg["device"])
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=self.cfg["lr"])
        self.bce = nn.BCEWithLogitsLoss()

    def loss(self, logits: Tensor, masks: Tensor) -> Tensor:
        w = self.cfg["dice_weight"]
        return (1 - w) * self.bce(logits, masks) + w * dice_loss(logits, masks)

    def train_one_epoch(self, loader: Iterable[Tuple[Tensor, Tensor]]) -> float:
        """`loader` yields (image (B, bands, H, W), mask (B, 1, H, W) float)."""
        self.model.train()
        accum = self.cfg["accum_steps"]
        self.optimizer.zero_grad()
        total, n = 0.0, 0
        for i, (images, masks) in enumerate(loader):
            images, masks = images.to(self.cfg["device"]), masks.to(self.cfg["device"])
            loss = self.loss(self.model(images), masks)
            (loss / accum).backward()
            total += loss.item()
            n += 1
            if (i + 1) % accum == 0:
                if self.cfg["grad_clip"]:
                    nn.utils.clip_grad_norm_(self.model.parameters(), self.cfg["grad_clip"])
                self.optimizer.step()
                self.optimizer.zero_grad()
        return total / max(n, 1)
