# target: evaluate
"""Evaluation of a multi-label chest X-ray classifier: per-finding AUROC."""
from typing import Dict, Iterable, Sequence, Tuple
import numpy as np
import torch
from torch import nn

FINDINGS = ("atelectasis", "effusion", "cardiomegaly")


def small_cnn(n_out: int = len(FINDINGS)) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.ReLU(),
        nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, n_out),
    )


def auroc(scores: np.ndarray, labels: np.ndarray) -> float:
    """Rank-based AUROC of one finding (ties are not handled)."""
    order = scores.argsort()
    ranks = np.empty(len(scores))
    ranks[order] = np.arange(1, len(scores) + 1)
    n_pos = labels.sum()
    n_neg = len(labels) - n_pos
    if n_pos == 0 or n_neg == 0:
        return float("nan")
    return float((ranks[labels == 1].sum() - n_pos * (n_pos + 1) / 2) / (n_pos * n_neg))


@torch.no_grad()
def evaluate(
    model: nn.Module,
    batches: Iterable[Tuple[torch.Tensor, torch.Tensor]],
    device: torch.device,
    findings: Sequence[str] = FINDINGS,
) -> Dict[str, float]:
    was_training = model.training
    model.to(device).eval()
    all_scores, all_labels = [], []
    for images, labels in batches:
        probs = torch.sigmoid(model(images.to(device, non_blocking=True)))
        all_scores.append(probs.cpu().numpy())
        all_labels.append(labels.numpy())
    model.train(was_training)
    scores = np.concatenate(all_scores)
    targets = np.concatenate(all_labels)
    return {name: auroc(scores[:, i], targets[:, i]) for i, name in enumerate(findings)}


def main() -> None:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    rng = torch.Generator().manual_seed(0)
    data = [(torch.randn(16, 1, 64, 64, generator=rng), torch.randint(0, 2, (16, 3), generator=rng)) for _ in range(4)]
    for name, value in evaluate(small_cnn(), data, device).items():
        print(f"{name:15s} {value:.3f}")


if __name__ == "__main__":
    main()
