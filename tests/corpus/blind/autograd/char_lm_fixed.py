# target: train_epoch
"""Character language model trained with truncated back-propagation through time."""
from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F


class CharLM(nn.Module):
    def __init__(self, n_chars: int, dim: int = 48, layers: int = 2):
        super().__init__()
        self.embed = nn.Embedding(n_chars, dim)
        self.rnn = nn.LSTM(dim, dim, num_layers=layers, batch_first=True, dropout=0.1)
        self.proj = nn.Linear(dim, n_chars)

    def forward(self, tokens, state=None):
        out, state = self.rnn(self.embed(tokens), state)
        return self.proj(out), state


def batchify(text: str, batch_size: int) -> tuple[torch.Tensor, dict[str, int]]:
    vocab = {c: i for i, c in enumerate(sorted(set(text)))}
    ids = torch.tensor([vocab[c] for c in text])
    length = len(ids) // batch_size
    return ids[: length * batch_size].view(batch_size, length), vocab


def train_epoch(model: CharLM, data: torch.Tensor, optimizer: torch.optim.Optimizer, bptt: int = 25) -> float:
    """One pass over ``data`` (batch, length); the state is kept across chunks."""
    model.train()
    state = None
    total, n_chunks = 0.0, 0
    for start in range(0, data.size(1) - 1, bptt):
        end = min(start + bptt, data.size(1) - 1)
        inputs, targets = data[:, start:end], data[:, start + 1 : end + 1]
        optimizer.zero_grad()
        if state is not None:
            state = tuple(s.detach() for s in state)
        logits, state = model(inputs, state)
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        total += loss.item()
        n_chunks += 1
    return total / n_chunks


if __name__ == "__main__":
    torch.manual_seed(0)
    corpus = "the quick brown fox jumps over the lazy dog. " * 60
    data, vocab = batchify(corpus, batch_size=8)
    lm = CharLM(len(vocab))
    opt = torch.optim.Adam(lm.parameters(), lr=3e-3)
    for epoch in range(3):
        print(f"epoch {epoch}: loss {train_epoch(lm, data, opt):.3f}")
