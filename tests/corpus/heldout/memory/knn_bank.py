# target: script
# gpu-memory: 2GiB
# truth: The difference of every query with every bank entry is built as a (Q, N, D) tensor only to be summed over D; with 256 queries
#   and a bank of 50000 x 128 that is 6.1 GiB, so a 2 GiB GPU (or a small machine) runs out of memory.
"""k-NN monitor for self-supervised pre-training: label accuracy of nearest neighbours in feature space."""
from typing import Optional

import torch
from torch import Tensor


class KNNMonitor:
    """Ring buffer of features and labels, queried with the validation features.

    The default bank has room for 50000 features of 128 dimensions.
    """

    def __init__(self, dim: int = 128, capacity: int = 50_000, k: int = 20, n_classes: int = 10, device="cpu"):
        self.k = k
        self.n_classes = n_classes
        self.features = torch.zeros(capacity, dim, device=device)
        self.labels = torch.zeros(capacity, dtype=torch.long, device=device)
        self.cursor = 0
        self.filled = 0

    @torch.no_grad()
    def add(self, feats: Tensor, labels: Tensor) -> None:
        capacity = self.features.size(0)
        idx = (torch.arange(feats.size(0), device=feats.device) + self.cursor) % capacity
        self.features[idx] = feats
        self.labels[idx] = labels
        self.cursor = (self.cursor + feats.size(0)) % capacity
        self.filled = min(self.filled + feats.size(0), capacity)

    def _distances(self, queries: Tensor) -> Tensor:
        bank = self.features[: self.filled]
        return (queries[:, None, :] - bank[None, :, :]).square().sum(dim=-1)  # error: DG507

    @torch.no_grad()
    def predict(self, queries: Tensor, temperature: Optional[float] = 0.1) -> Tensor:
        """Weighted vote of the k nearest bank entries for queries (Q, D); returns class ids (Q,)."""
        if self.filled < self.k:
            raise RuntimeError(f"bank holds {self.filled} features, {self.k} needed")
        dist, index = self._distances(queries).topk(self.k, dim=1, largest=False)
        weights = torch.softmax(-dist / temperature, dim=1) if temperature else torch.ones_like(dist)
        votes = torch.zeros(queries.size(0), self.n_classes, device=queries.device)
        votes.scatter_add_(1, self.labels[index], weights)
        return votes.argmax(dim=1)


def build_monitor(device: str = "cpu", seed: int = 0) -> KNNMonitor:
    """A full bank around ten random class centres, 500 features at a time."""
    gen = torch.Generator().manual_seed(seed)
    centres = torch.randn(10, 128, generator=gen)
    monitor = KNNMonitor(device=device)
    for _ in range(100):
        labels = torch.randint(0, 10, (500,), generator=gen)
        feats = centres[labels] + 0.5 * torch.randn(500, 128, generator=gen)
        monitor.add(feats.to(device), labels.to(device))
    return monitor


if __name__ == "__main__":
    monitor = build_monitor("cuda" if torch.cuda.is_available() else "cpu")
    queries = monitor.features[:256] + 0.1
    print((monitor.predict(queries) == monitor.labels[:256]).float().mean().item())
