# target: MultiTaskTrainer.train_step
# truth: backward() raises "element 0 of tensors does not require grad and does not have a grad_fn": torch.tensor([...]) copies the values of the task losses into a new tensor that has no connection to the graph.
"""Multi-task model for marketplace listings: category, quality score and price."""
from dataclasses import dataclass, field
from typing import Dict

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class MTLConfig:
    n_features: int = 64
    n_categories: int = 20
    hidden: int = 128
    lr: float = 1e-3
    task_weights: Dict[str, float] = field(
        default_factory=lambda: {"category": 1.0, "quality": 0.5, "price": 0.2}
    )


class ListingModel(nn.Module):
    def __init__(self, cfg: MTLConfig):
        super().__init__()
        self.shared = nn.Sequential(
            nn.Linear(cfg.n_features, cfg.hidden), nn.ReLU(), nn.Dropout(0.1),
            nn.Linear(cfg.hidden, cfg.hidden), nn.ReLU(),
        )
        self.category = nn.Linear(cfg.hidden, cfg.n_categories)
        self.quality = nn.Linear(cfg.hidden, 1)
        self.price = nn.Linear(cfg.hidden, 1)

    def forward(self, x: torch.Tensor) -> Dict[str, torch.Tensor]:
        h = self.shared(x)
        return {
            "category": self.category(h),
            "quality": self.quality(h).squeeze(-1),
            "price": self.price(h).squeeze(-1),
        }


class MultiTaskTrainer:
    def __init__(self, cfg: MTLConfig):
        self.cfg = cfg
        self.model = ListingModel(cfg)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=cfg.lr)

    def task_losses(self, out: Dict[str, torch.Tensor], batch: Dict[str, torch.Tensor]):
        return {
            "category": F.cross_entropy(out["category"], batch["category"]),
            "quality": F.binary_cross_entropy_with_logits(out["quality"], batch["quality"]),
            "price": F.smooth_l1_loss(out["price"], batch["log_price"]),
        }

    def combine(self, losses: Dict[str, torch.Tensor]) -> torch.Tensor:
        values = torch.tensor([losses[name] for name in losses])  # error: DG105
        weights = values.new_tensor([self.cfg.task_weights[name] for name in losses])
        return (weights * values).sum() / weights.sum()

    def train_step(self, batch: Dict[str, torch.Tensor]) -> Dict[str, float]:
        """batch: features (B, F), category (B,) long, quality (B,) 0/1 float, log_price (B,) float."""
        self.model.train()
        losses = self.task_losses(self.model(batch["features"]), batch)
        loss = self.combine(losses)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return {"loss": loss.item(), **{f"loss/{k}": v.item() for k, v in losses.items()}}
