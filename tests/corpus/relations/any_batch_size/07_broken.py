"""Contrastive loss between image and text embeddings."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class ClipLoss(nn.Module):
    """Symmetric cross entropy over the similarity matrix.

    Args:
        batch_size: pairs per step.
        temperature: initial temperature.

    image: (batch, dim), text: (batch, dim); returns a scalar.
    """

    def __init__(self, batch_size: int = 16, temperature: float = 0.07):
        super().__init__()
        self.log_scale = nn.Parameter(torch.tensor(math.log(1.0 / temperature)))
        self.register_buffer("labels", torch.arange(batch_size))

    def forward(self, image: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        image = F.normalize(image, dim=-1)
        text = F.normalize(text, dim=-1)
        logits = self.log_scale.exp() * image @ text.t()
        labels = self.labels
        return 0.5 * (F.cross_entropy(logits, labels) + F.cross_entropy(logits.t(), labels))


def retrieval_at_one(image: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
    """Share of images whose best text is the paired one."""
    sim = F.normalize(image, dim=-1) @ F.normalize(text, dim=-1).t()
    return (sim.argmax(dim=1) == torch.arange(len(image))).float().mean()
