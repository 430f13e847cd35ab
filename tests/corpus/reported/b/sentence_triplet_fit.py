# source: https://github.com/huggingface/sentence-transformers/pull/4033
# target: pairwise_euclidean_sim
# truth: for an anchor and positive with identical embeddings (duplicate sentences) the distance is 0 and d sqrt(0) is
#   infinite: the triplet loss is finite, its gradient NaN, and the encoder is NaN after that step
import random
from enum import Enum
from typing import Iterable, List, Tuple

import torch
from torch import Tensor, nn


def pairwise_cos_sim(a: Tensor, b: Tensor) -> Tensor:
    return nn.functional.cosine_similarity(a, b, dim=-1)


def pairwise_euclidean_sim(a: Tensor, b: Tensor) -> Tensor:
    return -torch.sqrt(torch.sum((a - b) ** 2, dim=-1))  # culprit


class TripletDistanceMetric(Enum):
    COSINE = lambda x, y: 1 - pairwise_cos_sim(x, y)
    EUCLIDEAN = lambda x, y: -pairwise_euclidean_sim(x, y)


class Tokenizer:
    def __init__(self, sentences: Iterable[str]):
        words = sorted({w for s in sentences for w in s.lower().split()})
        self.index = {w: i + 1 for i, w in enumerate(words)}

    def __call__(self, batch: List[str]) -> Tensor:
        ids = [torch.tensor([self.index.get(w, 0) for w in s.lower().split()]) for s in batch]
        return nn.utils.rnn.pad_sequence(ids, batch_first=True)


class SentenceEncoder(nn.Module):
    def __init__(self, tokenizer: Tokenizer, dim: int = 32):
        super().__init__()
        self.tokenizer = tokenizer
        self.embedding = nn.Embedding(len(tokenizer.index) + 1, dim, padding_idx=0)
        self.dense = nn.Sequential(nn.Linear(dim, dim), nn.Tanh(), nn.Linear(dim, dim))

    def forward(self, sentences: List[str]) -> Tensor:
        ids = self.tokenizer(sentences).to(self.embedding.weight.device)
        mask = (ids != 0).unsqueeze(-1)
        pooled = (self.embedding(ids) * mask).sum(1) / mask.sum(1).clamp(min=1)
        return self.dense(pooled)


class TripletLoss(nn.Module):
    def __init__(self, model: SentenceEncoder, distance_metric=TripletDistanceMetric.EUCLIDEAN, margin: float = 2.0):
        super().__init__()
        self.model, self.distance_metric, self.margin = model, distance_metric, margin

    def forward(self, triplets: List[Tuple[str, str, str]]) -> Tensor:
        anchor, positive, negative = (self.model(list(column)) for column in zip(*triplets))
        distance_pos = self.distance_metric(anchor, positive)
        distance_neg = self.distance_metric(anchor, negative)
        return torch.relu(distance_pos - distance_neg + self.margin).mean()


TOPICS = {
    "weather": ["rain falls on the hills", "the sun warms the valley", "wind and snow are coming", "clouds over the coast"],
    "food": ["bread with butter", "soup of beans and onion", "a cake with lemon", "rice and grilled fish"],
    "sport": ["the team won the final", "a runner broke the record", "goals in the last minute", "the match was long"],
}


def sample_triplets(n: int, rng: random.Random) -> List[Tuple[str, str, str]]:
    out = []
    for _ in range(n):
        topic, other = rng.sample(sorted(TOPICS), 2)
        out.append((rng.choice(TOPICS[topic]), rng.choice(TOPICS[topic]), rng.choice(TOPICS[other])))
    return out


def fit(model: SentenceEncoder, loss_fn: TripletLoss, steps: int, batch_size: int = 16, lr: float = 5e-3) -> None:
    rng = random.Random(4)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    for step in range(steps):
        loss = loss_fn(sample_triplets(batch_size, rng))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 5 == 0:
            print("step", step, "loss", round(loss.item(), 4))


if __name__ == "__main__":
    torch.manual_seed(0)
    encoder = SentenceEncoder(Tokenizer(s for group in TOPICS.values() for s in group))
    fit(encoder, TripletLoss(encoder), steps=20)
