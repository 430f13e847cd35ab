# target: script
"""Character-level language model trained with truncated BPTT on a text stream."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F

TEXT = (
    "it was the best of times, it was the worst of times, it was the age of wisdom, "
    "it was the age of foolishness, it was the epoch of belief, it was the epoch of "
    "incredulity, it was the season of light, it was the season of darkness. "
) * 8


class CharLM(nn.Module):
    def __init__(self, vocab_size, emb=24, hidden=48, layers=1):
        super().__init__()
        self.hidden_size, self.layers = hidden, layers
        self.emb = nn.Embedding(vocab_size, emb)
        self.lstm = nn.LSTM(emb, hidden, layers, batch_first=True)
        self.out = nn.Linear(hidden, vocab_size)

    def init_hidden(self, batch_size):
        shape = (self.layers, batch_size, self.hidden_size)
        return torch.zeros(shape), torch.zeros(shape)

    def forward(self, x, hidden):
        y, hidden = self.lstm(self.emb(x), hidden)
        return self.out(y), hidden


def batchify(ids, batch_size):
    n = ids.numel() // batch_size
    return ids[: n * batch_size].view(batch_size, n)


def train_epoch(model, data, optimizer, bptt):
    model.train()
    hidden = model.init_hidden(data.size(0))
    total, chunks = 0.0, 0
    for start in range(0, data.size(1) - 1, bptt):
        end = min(start + bptt, data.size(1) - 1)
        x, y = data[:, start:end], data[:, start + 1 : end + 1]
        optimizer.zero_grad()
        hidden = tuple(h.detach() for h in hidden)
        logits, hidden = model(x, hidden)
        loss = F.cross_entropy(logits.reshape(-1, logits.size(-1)), y.reshape(-1))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        total += loss.item()
        chunks += 1
    return total / chunks


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--bptt", type=int, default=32)
    parser.add_argument("--batch-size", type=int, default=4)
    args = parser.parse_args()

    torch.manual_seed(0)
    vocab = sorted(set(TEXT))
    lookup = {c: i for i, c in enumerate(vocab)}
    data = batchify(torch.tensor([lookup[c] for c in TEXT]), args.batch_size)
    model = CharLM(len(vocab))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(args.epochs):
        print(f"epoch {epoch}: {train_epoch(model, data, optimizer, args.bptt):.3f}")


if __name__ == "__main__":
    main()
