"""Character level language model trained with truncated back-propagation."""
import torch
import torch.nn as nn
import torch.nn.functional as F

TEXT = (
    "the quick brown fox jumps over the lazy dog and then the dog sleeps "
    "while the fox runs back over the hill to find another quick friend "
) * 4


class CharGRU(nn.Module):
    def __init__(self, vocab, dim=32, hidden=64):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.rnn = nn.GRU(dim, hidden, batch_first=True)
        self.out = nn.Linear(hidden, vocab)

    def forward(self, tokens, hidden=None):
        y, hidden = self.rnn(self.embed(tokens), hidden)
        return self.out(y), hidden


def encode(text, batch):
    chars = sorted(set(text))
    table = {c: i for i, c in enumerate(chars)}
    ids = torch.tensor([table[c] for c in text])
    n = len(ids) // batch
    return ids[: n * batch].view(batch, n), len(chars)


def train(model, data, window=32, lr=3e-3):
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    hidden, losses = None, []
    for start in range(0, data.size(1) - 1 - window, window):
        x = data[:, start:start + window]
        y = data[:, start + 1:start + window + 1]
        logits, hidden = model(x, hidden)
        loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses


def main():
    torch.manual_seed(0)
    data, vocab = encode(TEXT, batch=4)
    model = CharGRU(vocab)
    losses = train(model, data)
    print(f"{len(losses)} windows, first {losses[0]:.3f}, last {losses[-1]:.3f}")


if __name__ == "__main__":
    main()
