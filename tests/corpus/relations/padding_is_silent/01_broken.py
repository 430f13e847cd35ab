"""Sentence encoder used for the duplicate question retrieval experiments."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor


class SentenceEncoder(nn.Module):
    """Embeds token ids and returns one unit vector per sentence.

    Args:
        vocab_size: size of the vocabulary.
        dim: embedding size.
        out_dim: size of the sentence vector.

    Shapes:
        tokens: (batch, length) int64
        mask: (batch, length) bool, True at real tokens
        returns: (batch, out_dim)
    """

    def __init__(self, vocab_size: int = 1000, dim: int = 32, out_dim: int = 16):
        super().__init__()
        self.embed = nn.Embedding(vocab_size, dim)
        self.fc1 = nn.Linear(dim, 2 * dim)
        self.fc2 = nn.Linear(2 * dim, dim)
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, out_dim)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        x = self.embed(tokens)
        x = self.norm(x + self.fc2(F.gelu(self.fc1(x))))
        keep = mask.unsqueeze(-1).to(x.dtype)
        pooled = x.mean(dim=1) * keep.amax(dim=1)
        return F.normalize(self.head(pooled), dim=-1)
