"""Word vectors by skip-gram with negative sampling on a synthetic corpus of two topics."""
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

VOCAB, DIM, WINDOW, NEG = 20, 12, 2, 4


def corpus(n_sentences=150, length=8):
    topic = torch.randint(2, (n_sentences, 1))
    return topic * (VOCAB // 2) + torch.randint(VOCAB // 2, (n_sentences, length))


def skip_gram_pairs(sentences):
    centers, contexts = [], []
    for offset in range(1, WINDOW + 1):
        left, right = sentences[:, :-offset].reshape(-1), sentences[:, offset:].reshape(-1)
        centers += [left, right]
        contexts += [right, left]
    return torch.cat(centers), torch.cat(contexts)


class SkipGram(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Embedding(VOCAB, DIM)
        self.out = nn.Embedding(VOCAB, DIM)
        nn.init.uniform_(self.inp.weight, -0.5 / DIM, 0.5 / DIM)
        nn.init.zeros_(self.out.weight)

    def forward(self, center, context, negative):
        v = self.inp(center)
        positive = (v * self.out(context)).sum(-1)
        against = torch.einsum("bd,bnd->bn", v, self.out(negative))
        return -(F.logsigmoid(positive) + F.logsigmoid(-against).sum(dim=1)).mean()


sentences = corpus().to(device)
centers, contexts = skip_gram_pairs(sentences)
noise = torch.bincount(sentences.flatten(), minlength=VOCAB).float().pow(0.75)
model = SkipGram().to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)

for epoch in range(6):
    total = torch.zeros((), device=device)
    for idx in torch.randperm(len(centers), device=device).split(256):
        negative = torch.multinomial(noise, len(idx) * NEG, replacement=True).view(len(idx), NEG)
        loss = model(centers[idx], contexts[idx], negative)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.detach() * len(idx)
    print(f"epoch {epoch}: loss {total.item() / len(centers):.3f}")

with torch.no_grad():
    unit = F.normalize(model.inp.weight, dim=1)
    sim = (unit @ unit.T).fill_diagonal_(-1.0)
    neighbour = sim.argmax(dim=1)
    topics = torch.arange(VOCAB, device=device) >= VOCAB // 2
    print(f"neighbours of the same topic: {(topics == topics[neighbour]).float().mean().item():.2f}")
