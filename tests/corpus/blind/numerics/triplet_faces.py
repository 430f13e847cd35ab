# target: EmbeddingTrainer.fit_batch
# truth: The distance matrix has exact zeros on its diagonal and the gradient of sqrt at 0 is infinite (inf * 0 = nan), so after the first
#   step all parameters are nan although the first loss value is finite.
"""Batch-hard triplet loss for face re-identification."""
import torch
from torch import nn


def pairwise_distance(emb: torch.Tensor) -> torch.Tensor:
    """Euclidean distances between all rows, (B, B)."""
    diff = emb[:, None, :] - emb[None, :, :]
    return diff.pow(2).sum(-1).sqrt()  # error: DG407


class BatchHardTriplet(nn.Module):
    def __init__(self, margin=0.3):
        super().__init__()
        self.margin = margin

    def forward(self, emb, identity):
        dist = pairwise_distance(emb)
        same = identity[:, None] == identity[None, :]
        hardest_pos = (dist * same).max(dim=1).values
        hardest_neg = dist.masked_fill(same, float("inf")).min(dim=1).values
        return torch.relu(hardest_pos - hardest_neg + self.margin).mean()


class FaceEncoder(nn.Module):
    def __init__(self, emb_dim=32):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
        )
        self.fc = nn.Linear(32, emb_dim)

    def forward(self, x):
        return nn.functional.normalize(self.fc(self.conv(x).flatten(1)), dim=1)


class EmbeddingTrainer:
    def __init__(self, encoder, lr=3e-4, margin=0.3):
        self.encoder = encoder
        self.criterion = BatchHardTriplet(margin)
        self.optimizer = torch.optim.Adam(encoder.parameters(), lr=lr)

    def fit_batch(self, images, identity):
        self.encoder.train()
        loss = self.criterion(self.encoder(images), identity)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


def pk_batch(n_ids=6, per_id=4, size=32):
    """P identities with K images each."""
    base = torch.randn(n_ids, 1, 3, size, size)
    images = base + 0.3 * torch.randn(n_ids, per_id, 3, size, size)
    return images.flatten(0, 1), torch.arange(n_ids).repeat_interleave(per_id)
