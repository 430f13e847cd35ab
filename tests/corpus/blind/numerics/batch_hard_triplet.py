# target: ReIDTrainer.step
# truth: pairwise_distances takes the square root of exact zeros (each embedding against itself); its derivative there is infinite, so the gradients and after one step the weights are NaN, although the first loss is finite.
"""Person re-identification with batch-hard triplet loss (Hermans et al.)."""
import torch
from torch import nn
import torch.nn.functional as F


def pairwise_distances(x: torch.Tensor) -> torch.Tensor:
    """Euclidean distances between all rows of x: (N, D) -> (N, N)."""
    diff = x.unsqueeze(0) - x.unsqueeze(1)
    return diff.pow(2).sum(dim=-1).sqrt()  # error: DG407


def batch_hard_triplet_loss(emb: torch.Tensor, labels: torch.Tensor, margin: float = 0.3) -> torch.Tensor:
    dist = pairwise_distances(emb)
    same = labels.unsqueeze(0) == labels.unsqueeze(1)
    # the anchor itself never is the hardest positive, its distance is zero
    hardest_pos = (dist * same).max(dim=1).values
    hardest_neg = (dist + 1e4 * same).min(dim=1).values
    return F.relu(hardest_pos - hardest_neg + margin).mean()


class EmbeddingNet(nn.Module):
    def __init__(self, in_channels: int = 3, dim: int = 64):
        super().__init__()
        widths = [in_channels, 16, 32, 64]
        layers = []
        for a, b in zip(widths, widths[1:]):
            layers += [nn.Conv2d(a, b, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU()]
        self.features = nn.Sequential(*layers)
        self.project = nn.Linear(widths[-1], dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.project(self.features(x).mean(dim=(2, 3)))


class ReIDTrainer:
    def __init__(self, net: EmbeddingNet, n_ids: int, dim: int = 64, lr: float = 3e-4, triplet_weight: float = 1.0):
        self.net = net
        self.id_head = nn.Linear(dim, n_ids)
        self.triplet_weight = triplet_weight
        params = list(net.parameters()) + list(self.id_head.parameters())
        self.optimizer = torch.optim.Adam(params, lr=lr)

    def step(self, images: torch.Tensor, labels: torch.Tensor) -> dict:
        """images: (P*K, C, H, W) with K images of each of P identities."""
        self.net.train()
        emb = self.net(images)
        triplet = batch_hard_triplet_loss(emb, labels)
        ce = F.cross_entropy(self.id_head(emb), labels, label_smoothing=0.1)
        loss = ce + self.triplet_weight * triplet
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return {"loss": loss.item(), "triplet": triplet.item(), "ce": ce.item()}
