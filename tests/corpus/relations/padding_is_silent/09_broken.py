"""Losses and metrics for the span labelling model."""
import torch
import torch.nn.functional as F


def sequence_nll(logits: torch.Tensor, targets: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Negative log likelihood per sequence.

    logits: (B, T, C), targets: (B, T) class ids, mask: (B, T) bool, True where
    the label counts. Returns (B,).
    """
    b, t, c = logits.shape
    nll = F.cross_entropy(logits.reshape(b * t, c), targets.reshape(b * t), reduction="none")
    nll = nll.view(b, t)
    return nll.sum(dim=1) / mask.sum(dim=1).clamp(min=1)


def sequence_accuracy(logits: torch.Tensor, targets: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Share of right labels per sequence, (B,)."""
    hit = (logits.argmax(-1) == targets) & mask
    return hit.sum(dim=1).float() / mask.sum(dim=1).clamp(min=1)


def label_entropy(logits: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Mean predictive entropy over the labelled positions of each sequence, (B,)."""
    logp = logits.log_softmax(-1)
    ent = -(logp.exp() * logp).sum(-1) * mask
    return ent.sum(dim=1) / mask.sum(dim=1).clamp(min=1)
