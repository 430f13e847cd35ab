# target: EmbeddingTrainer.train_step
# truth: All gradients are NaN after the first backward and all weights after the first step: the distance of each sample to itself is exactly 0 and the derivative of sqrt at 0 is infinite (0 * inf = NaN), although the diagonal does not enter the loss.
"""Metric learning for product photos: batch-hard triplet loss (Hermans et al., 2017)."""
from typing import Dict, Optional

import torch
from torch import Tensor, nn


def pairwise_distance(x: Tensor) -> Tensor:
    """Euclidean distances between all rows of x, (B, D) -> (B, B)."""
    diff = x.unsqueeze(1) - x.unsqueeze(0)
    return diff.pow(2).sum(dim=-1).sqrt()  # error: DG407


class BatchHardTripletLoss(nn.Module):
    """Hardest positive and hardest negative within the batch, with a margin."""

    def __init__(self, margin: float = 0.3):
        super().__init__()
        self.margin = margin

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        dist = pairwise_distance(embeddings)
        same = labels.unsqueeze(0) == labels.unsqueeze(1)
        self_pair = torch.eye(len(labels), dtype=torch.bool, device=labels.device)
        hardest_pos = dist.masked_fill(~same | self_pair, 0.0).max(dim=1).values
        hardest_neg = dist.masked_fill(same, float("inf")).min(dim=1).values
        usable = (same & ~self_pair).any(dim=1) & (~same).any(dim=1)
        losses = torch.relu(hardest_pos[usable] - hardest_neg[usable] + self.margin)
        return losses.sum() / usable.sum().clamp(min=1)


class ProductEncoder(nn.Module):
    def __init__(self, dim: int = 64):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 32, 3, stride=2, padding=1),
            nn.GroupNorm(4, 32),
            nn.GELU(),
            nn.Conv2d(32, 64, 3, stride=2, padding=1),
            nn.GELU(),
            nn.AdaptiveAvgPool2d(1),
        )
        self.proj = nn.Linear(64, dim)

    def forward(self, images: Tensor) -> Tensor:
        return nn.functional.normalize(self.proj(self.body(images).flatten(1)), dim=-1)


class EmbeddingTrainer:
    def __init__(self, model: Optional[nn.Module] = None, lr: float = 3e-4, margin: float = 0.3):
        self.model = model if model is not None else ProductEncoder()
        self.loss_fn = BatchHardTripletLoss(margin)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=lr)
        self.step_count = 0

    def train_step(self, images: Tensor, product_ids: Tensor) -> Dict[str, float]:
        """`product_ids` should hold several images per product (PK sampling)."""
        self.model.train()
        embeddings = self.model(images)
        loss = self.loss_fn(embeddings, product_ids)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.step_count += 1
        return {"step": self.step_count, "loss": loss.item()}
