# target: ReIDTrainer.train_epoch
"""Batch-hard triplet training for person re-identification embeddings."""
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass(frozen=True)
class TripletConfig:
    margin: float = 0.3
    embed_dim: int = 128
    lr: float = 3e-4
    weight_decay: float = 5e-4


def pairwise_distance(x, y):
    """Euclidean distances between the rows of x (n, d) and of y (m, d)."""
    sq = x.pow(2).sum(1, keepdim=True) + y.pow(2).sum(1) - 2.0 * x @ y.t()
    return sq.clamp(min=1e-12).sqrt()


class BatchHardTriplet(nn.Module):
    """For every anchor: its farthest positive and its nearest negative in the batch."""

    def __init__(self, margin):
        super().__init__()
        self.margin = margin

    def forward(self, emb, labels):
        dist = pairwise_distance(emb, emb)
        same = labels.unsqueeze(0) == labels.unsqueeze(1)
        hardest_pos = dist.masked_fill(~same, 0.0).amax(dim=1)
        hardest_neg = dist.masked_fill(same, float("inf")).amin(dim=1)
        return F.relu(hardest_pos - hardest_neg + self.margin).mean()


class EmbeddingHead(nn.Module):
    def __init__(self, backbone, feat_dim, embed_dim):
        super().__init__()
        self.backbone = backbone
        self.proj = nn.Linear(feat_dim, embed_dim, bias=False)
        self.neck = nn.BatchNorm1d(embed_dim)

    def forward(self, images):
        feats = self.backbone(images)
        return self.neck(self.proj(feats.flatten(1)))


class ReIDTrainer:
    """Expects P x K batches: P identities (P >= 2) with K images each."""

    def __init__(self, backbone, feat_dim, device, cfg=TripletConfig()):
        self.device = device
        self.model = EmbeddingHead(backbone, feat_dim, cfg.embed_dim).to(device)
        self.criterion = BatchHardTriplet(cfg.margin)
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=cfg.lr, weight_decay=cfg.weight_decay
        )

    def step(self, images, labels):
        images, labels = images.to(self.device), labels.to(self.device)
        loss = self.criterion(self.model(images), labels)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def train_epoch(self, loader):
        self.model.train()
        total = torch.zeros((), device=self.device)
        for images, labels in loader:
            total += self.step(images, labels)
        return total.item() / len(loader)
