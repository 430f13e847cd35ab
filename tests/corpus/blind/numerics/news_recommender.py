# target: NewsRecommender.forward
# truth: A user with an empty click history has every position masked with -inf; softmax over such a row gives nan, so that user's
#   scores, the batch's loss and after one step the weights are nan.
"""News recommendation: attention over the user's click history."""
import torch
from torch import Tensor, nn
from torch.nn import functional as F


class AdditiveAttention(nn.Module):
    def __init__(self, dim: int, query_dim: int = 32):
        super().__init__()
        self.proj = nn.Linear(dim, query_dim)
        self.query = nn.Parameter(torch.randn(query_dim) * 0.1)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """x: (B, L, D); mask: (B, L), True where there is a clicked article."""
        scores = torch.tanh(self.proj(x)) @ self.query
        scores = scores.masked_fill(~mask, float("-inf"))  # error: DG410
        weights = torch.softmax(scores, dim=-1)
        return (weights.unsqueeze(-1) * x).sum(dim=1)


class NewsRecommender(nn.Module):
    def __init__(self, n_articles: int, n_topics: int, dim: int = 48):
        super().__init__()
        self.article_emb = nn.Embedding(n_articles, dim, padding_idx=0)
        self.topic_emb = nn.Embedding(n_topics, dim)
        self.user_att = AdditiveAttention(dim)

    def encode(self, articles: Tensor, topics: Tensor) -> Tensor:
        return self.article_emb(articles) + self.topic_emb(topics)

    def forward(self, history, history_topics, candidates, candidate_topics):
        """Scores (B, C) of the candidates; article id 0 in ``history`` is padding."""
        clicked = self.encode(history, history_topics)
        user = self.user_att(clicked, history != 0)
        items = self.encode(candidates, candidate_topics)
        return torch.einsum("bd,bcd->bc", user, items)


def train_step(model: NewsRecommender, optimizer: torch.optim.Optimizer, batch: dict) -> float:
    scores = model(batch["history"], batch["history_topics"], batch["candidates"], batch["candidate_topics"])
    loss = F.cross_entropy(scores, batch["clicked"])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def synthetic_batch(n_articles=500, n_topics=12, batch=32, max_len=15, n_cand=5):
    lengths = torch.randint(0, max_len + 1, (batch,))
    lengths[0] = 0  # new users do come up
    history = torch.randint(1, n_articles, (batch, max_len))
    history[torch.arange(max_len)[None, :] >= lengths[:, None]] = 0
    return {
        "history": history,
        "history_topics": torch.randint(0, n_topics, (batch, max_len)),
        "candidates": torch.randint(1, n_articles, (batch, n_cand)),
        "candidate_topics": torch.randint(0, n_topics, (batch, n_cand)),
        "clicked": torch.randint(0, n_cand, (batch,)),
    }
