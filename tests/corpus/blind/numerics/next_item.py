# target: sampled_loss
# truth: A user without any clicks has every score set to -inf, softmax of that row is 0/0 = NaN, so the loss of the
#   whole batch and all gradients become NaN as soon as one cold-start user is in it.
"""Attention over a user's click history for next-item recommendation."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

PAD = 0


class HistoryPooling(nn.Module):
    """Additive attention over the clicked items; padded positions are ignored.

    Cold-start users have no clicks at all and are represented by the zero vector.
    """

    def __init__(self, dim: int):
        super().__init__()
        self.key = nn.Linear(dim, dim)
        self.score = nn.Linear(dim, 1, bias=False)

    def forward(self, items: Tensor, valid: Tensor) -> Tensor:
        # items: (batch, length, dim), valid: (batch, length) bool
        scores = self.score(torch.tanh(self.key(items))).squeeze(-1)
        scores = scores.masked_fill(~valid, float("-inf"))  # error: DG410
        weights = torch.softmax(scores, dim=-1).unsqueeze(-1)
        return (weights * items).sum(dim=1)


class NextItemModel(nn.Module):
    def __init__(self, n_items: int, dim: int = 32):
        """n_items counts the padding id, so real items are 1 .. n_items - 1."""
        super().__init__()
        self.items = nn.Embedding(n_items, dim, padding_idx=PAD)
        self.pool = HistoryPooling(dim)
        self.prior = nn.Linear(dim, dim)

    def user_vector(self, history: Tensor) -> Tensor:
        pooled = self.pool(self.items(history), history.ne(PAD))
        return pooled + self.prior(pooled)

    def forward(self, history: Tensor, candidates: Tensor) -> Tensor:
        """history (batch, length), candidates (batch, k) -> scores (batch, k)."""
        user = self.user_vector(history)
        return torch.einsum("bd,bkd->bk", user, self.items(candidates))


def sampled_loss(model: NextItemModel, history: Tensor, positive: Tensor, negatives: Tensor) -> Tensor:
    """Softmax loss of the clicked item against sampled negatives."""
    candidates = torch.cat((positive.unsqueeze(1), negatives), dim=1)
    scores = model(history, candidates)
    target = torch.zeros_like(positive)
    return F.cross_entropy(scores, target)


@torch.no_grad()
def hit_rate(model: NextItemModel, history: Tensor, positive: Tensor, negatives: Tensor, k: int = 10) -> float:
    model.eval()
    candidates = torch.cat((positive.unsqueeze(1), negatives), dim=1)
    scores = model(history, candidates)
    rank = (scores[:, 1:] >= scores[:, :1]).sum(dim=1)
    return (rank < k).float().mean().item()
