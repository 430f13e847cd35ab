"""Word vectors by skip-gram with negative sampling and a hand-written update."""
from collections import Counter

import torch
import torch.nn.functional as F

CORPUS = """a king rules a land and a queen rules a land the king and the queen
live in a castle the farmer works on the land and the farmer sells bread in the
town the baker makes bread in the town""".split()


def skipgrams(words, window=2):
    vocab = {w: i for i, (w, _) in enumerate(Counter(words).most_common())}
    ids = [vocab[w] for w in words]
    out = []
    for i, center in enumerate(ids):
        for j in range(max(0, i - window), min(len(ids), i + window + 1)):
            if j != i:
                out.append((center, ids[j]))
    return torch.tensor(out), vocab


def init(size, dim, seed=0):
    g = torch.Generator().manual_seed(seed)
    shape = (size, dim)
    return [(torch.randn(shape, generator=g) * 0.3).requires_grad_() for _ in range(2)]


def objective(params, pairs, negatives):
    inner, outer = params
    center = inner[pairs[:, 0]]
    positive = (center * outer[pairs[:, 1]]).sum(-1)
    negative = torch.einsum("nd,nkd->nk", center, outer[negatives])
    return -(F.logsigmoid(positive) + F.logsigmoid(-negative).sum(-1)).mean()


@torch.no_grad()
def sgd_update(params, lr):
    for p in params:
        p.add_(p.grad, alpha=lr)
        p.grad = None


def train(pairs, vocab_size, steps=40, dim=16, lr=1.0, negatives=3):
    params = init(vocab_size, dim)
    noise = torch.randint(0, vocab_size, (len(pairs), negatives))
    losses = []
    for _ in range(steps):
        loss = objective(params, pairs, noise)
        loss.backward()
        sgd_update(params, lr)
        losses.append(loss.item())
    return losses


if __name__ == "__main__":
    torch.manual_seed(0)
    pairs, vocab = skipgrams(CORPUS)
    losses = train(pairs, len(vocab))
    print(f"{len(vocab)} words, {len(pairs)} pairs, {losses[0]:.4f} -> {losses[-1]:.4f}")
