# target: evaluate
# truth: The confusion matrix is filled in a Python loop over every pixel with tensor indexing (several microseconds each; on a GPU also one synchronisation each), so the metric takes far longer than the model.
"""Mean-IoU evaluation for semantic segmentation."""
from typing import Dict, Iterable, Tuple

import torch
from torch import nn

IGNORE = 255


class ConfusionMatrix:
    """Rows are true classes, columns predictions. Pixels labelled IGNORE do not count."""

    def __init__(self, num_classes: int, device: str = "cpu"):
        self.num_classes = num_classes
        self.mat = torch.zeros(num_classes, num_classes, dtype=torch.long, device=device)

    def update(self, target: torch.Tensor, pred: torch.Tensor) -> None:
        keep = target != IGNORE
        t, p = target[keep].long(), pred[keep]
        for i, j in zip(t, p):  # error: DG607
            self.mat[i, j] += 1

    def iou(self) -> torch.Tensor:
        inter = self.mat.diagonal().float()
        union = self.mat.sum(0) + self.mat.sum(1) - self.mat.diagonal()
        return inter / union.clamp(min=1)

    def pixel_accuracy(self) -> float:
        return (self.mat.diagonal().sum() / self.mat.sum().clamp(min=1)).item()


class TinySegNet(nn.Module):
    def __init__(self, num_classes: int, width: int = 24):
        super().__init__()
        self.enc = nn.Sequential(
            nn.Conv2d(3, width, 3, stride=2, padding=1), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=2, dilation=2), nn.BatchNorm2d(width), nn.ReLU(),
        )
        self.cls = nn.Conv2d(width, num_classes, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits = self.cls(self.enc(x))
        return nn.functional.interpolate(logits, size=x.shape[-2:], mode="bilinear", align_corners=False)


@torch.no_grad()
def evaluate(
    model: nn.Module,
    loader: Iterable[Tuple[torch.Tensor, torch.Tensor]],
    num_classes: int,
    device: str = "cpu",
) -> Dict[str, float]:
    """loader yields images (B, 3, H, W) and uint8 label maps (B, H, W)."""
    model.to(device).eval()
    cm = ConfusionMatrix(num_classes, device)
    for images, target in loader:
        pred = model(images.to(device)).argmax(dim=1)
        cm.update(target.to(device), pred)
    return {"miou": cm.iou().mean().item(), "acc": cm.pixel_accuracy()}
