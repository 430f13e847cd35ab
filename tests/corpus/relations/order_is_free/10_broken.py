"""Losses for point cloud completion."""
import torch


def one_sided(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Mean squared distance from every point of a (N, 3) to its nearest point of b (M, 3)."""
    return torch.cdist(a, b).pow(2).min(dim=1).values.mean()


def chamfer_loss(pred: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Chamfer distance averaged over the batch.

    pred: (B, N, 3), target: (B, M, 3). Returns a scalar.
    """
    total = pred.new_zeros(())
    for p, q in zip(pred, target):
        d = one_sided(p, q) + one_sided(q, p)
        total = 0.5 * (total + d)
    return total


def repulsion_loss(pred: torch.Tensor, radius: float = 0.05) -> torch.Tensor:
    """Penalises points of one cloud closer than radius. pred: (B, N, 3)."""
    dist = torch.cdist(pred, pred) + torch.eye(pred.size(1)) * 10.0
    nearest = dist.min(dim=-1).values
    return torch.relu(radius - nearest).mean()
