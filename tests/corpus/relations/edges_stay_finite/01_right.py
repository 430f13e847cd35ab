from typing import Optional

import torch
import torch.nn as nn


def cosine_scores(queries: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
    """Cosine similarity of every query (N, D) with every key (M, D)."""
    queries = queries / queries.norm(dim=-1, keepdim=True).clamp(min=1e-8)
    keys = keys / keys.norm(dim=-1, keepdim=True).clamp(min=1e-8)
    return queries @ keys.t()


class PrototypeClassifier(nn.Module):
    """Few-shot classifier on bag-of-words counts.

    Documents are embedded by a bias-free linear map; classes are represented by
    learned prototypes, and logits are scaled cosine similarities.

    Args:
        vocab: size of the vocabulary.
        dim: size of the embedding.
        classes: number of prototypes.
        scale: factor of the similarities.
    """

    def __init__(self, vocab: int, dim: int, classes: int, scale: float = 10.0):
        super().__init__()
        self.embed = nn.Linear(vocab, dim, bias=False)
        self.prototypes = nn.Parameter(torch.randn(classes, dim))
        self.scale = scale

    def forward(self, counts: torch.Tensor, idf: Optional[torch.Tensor] = None) -> torch.Tensor:
        """Logits for word counts (batch, vocab); a document may be empty."""
        if idf is not None:
            counts = counts * idf
        return self.scale * cosine_scores(self.embed(counts), self.prototypes)

    @torch.no_grad()
    def nearest(self, counts: torch.Tensor) -> torch.Tensor:
        """Index of the closest prototype per document."""
        return self(counts).argmax(dim=-1)
