# target: DepthEvaluator.run
# truth: Predictions are computed with gradients on and kept for the final metrics, so every batch's whole graph with all activations stays alive; memory grows with each validation batch until it runs out.
"""Validation of monocular depth networks with dataset-level scale alignment."""
from typing import Dict, Iterable, List

import torch
from torch import nn


class DepthNet(nn.Module):
    def __init__(self, width: int = 32):
        super().__init__()
        self.down1 = nn.Sequential(nn.Conv2d(3, width, 3, 2, 1), nn.GELU())
        self.down2 = nn.Sequential(nn.Conv2d(width, 2 * width, 3, 2, 1), nn.GELU())
        self.mid = nn.Sequential(nn.Conv2d(2 * width, 2 * width, 3, 1, 1), nn.GELU())
        self.up1 = nn.ConvTranspose2d(2 * width, width, 2, 2)
        self.up2 = nn.ConvTranspose2d(2 * width, width, 2, 2)
        self.out = nn.Conv2d(width, 1, 3, 1, 1)

    def forward(self, img: torch.Tensor) -> torch.Tensor:
        d1 = self.down1(img)
        u1 = self.up1(self.mid(self.down2(d1)))
        u2 = self.up2(torch.cat([u1, d1], dim=1))
        return nn.functional.softplus(self.out(u2)).squeeze(1)


class DepthEvaluator:
    """Collects predictions over the split, then aligns one global scale and reports errors."""

    def __init__(self, model: nn.Module, device: str = "cpu", min_depth: float = 1e-3, max_depth: float = 80.0):
        self.model = model.to(device)
        self.device = device
        self.min_depth, self.max_depth = min_depth, max_depth

    def run(self, loader: Iterable) -> Dict[str, float]:  # error: DG501|DG506
        self.model.eval()
        preds: List[torch.Tensor] = []
        depths: List[torch.Tensor] = []
        for img, depth in loader:
            pred = self.model(img.to(self.device))
            valid = (depth > self.min_depth) & (depth < self.max_depth)
            preds.append(pred[valid.to(self.device)])
            depths.append(depth[valid].to(self.device))
        return self._metrics(torch.cat(preds), torch.cat(depths))

    def _metrics(self, pred: torch.Tensor, depth: torch.Tensor) -> Dict[str, float]:
        scale = depth.median() / pred.median()
        pred = (pred * scale).clamp(self.min_depth, self.max_depth)
        ratio = torch.maximum(pred / depth, depth / pred)
        return {
            "abs_rel": ((pred - depth).abs() / depth).mean().item(),
            "rmse": (pred - depth).pow(2).mean().sqrt().item(),
            "delta1": (ratio < 1.25).float().mean().item(),
        }
