# target: MetricTrainer.train_step
# truth: The distance of an embedding to itself is sqrt(0), whose gradient is infinite and times zero gives NaN, so after the first backward all weights become NaN.
"""Person re-identification embedding with batch-hard triplet loss."""
import torch
import torch.nn as nn


def pairwise_distances(emb: torch.Tensor) -> torch.Tensor:
    """Euclidean distance matrix (n, n) of the rows of emb."""
    diff = emb.unsqueeze(0) - emb.unsqueeze(1)
    squared = diff.pow(2).sum(dim=-1)
    return torch.sqrt(squared)  # error: DG407|DG410


def batch_hard_triplet_loss(emb: torch.Tensor, ids: torch.Tensor, margin: float) -> torch.Tensor:
    dist = pairwise_distances(emb)
    same = ids.unsqueeze(0) == ids.unsqueeze(1)
    hardest_positive = (dist * same).max(dim=1).values
    hardest_negative = dist.masked_fill(same, float("inf")).min(dim=1).values
    return torch.relu(hardest_positive - hardest_negative + margin).mean()


class EmbeddingNet(nn.Module):
    def __init__(self, dim: int = 32):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        )
        self.fc = nn.Linear(32, dim)

    def forward(self, x):
        return nn.functional.normalize(self.fc(self.conv(x)), dim=1)


class MetricTrainer:
    def __init__(self, dim: int = 32, margin: float = 0.3, lr: float = 3e-4):
        self.model = EmbeddingNet(dim)
        self.margin = margin
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=lr)

    def train_step(self, images: torch.Tensor, ids: torch.Tensor) -> float:
        """images: (P*K, 3, H, W) with K images of each of P persons; ids: (P*K,)."""
        self.model.train()
        loss = batch_hard_triplet_loss(self.model(images), ids, self.margin)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


def pk_batch(persons: int = 4, per_person: int = 4, height: int = 64, width: int = 32):
    ids = torch.arange(persons).repeat_interleave(per_person)
    return torch.rand(len(ids), 3, height, width), ids


if __name__ == "__main__":
    trainer = MetricTrainer()
    for step in range(10):
        print(step, trainer.train_step(*pk_batch()))
