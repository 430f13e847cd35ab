# target: script
"""Character language model trained on one long stream with truncated BPTT."""
import math
from typing import Iterator, Optional, Tuple

import torch
from torch import nn
import torch.nn.functional as F

State = Tuple[torch.Tensor, torch.Tensor]


class CharLM(nn.Module):
    def __init__(self, vocab: int, dim: int = 96, layers: int = 2):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.lstm = nn.LSTM(dim, dim, num_layers=layers, batch_first=True)
        self.head = nn.Linear(dim, vocab)
        self.head.weight = self.embed.weight  # tied

    def forward(self, tokens: torch.Tensor, state: Optional[State] = None):
        h, state = self.lstm(self.embed(tokens), state)
        return self.head(h), state


def batchify(stream: torch.Tensor, batch_size: int) -> torch.Tensor:
    usable = stream.numel() // batch_size * batch_size
    return stream[:usable].view(batch_size, -1)


def chunks(data: torch.Tensor, bptt: int) -> Iterator[Tuple[torch.Tensor, torch.Tensor]]:
    for start in range(0, data.size(1) - 1, bptt):
        end = min(start + bptt, data.size(1) - 1)
        yield data[:, start:end], data[:, start + 1:end + 1]


def train_epoch(model: CharLM, data: torch.Tensor, optimizer, bptt: int = 32, clip: float = 1.0) -> float:
    """Read the stream once, carrying the state over chunk borders. Returns bits per character."""
    model.train()
    state = None
    nll, count = 0.0, 0
    for x, y in chunks(data, bptt):
        if state is not None:
            state = tuple(s.detach() for s in state)
        logits, state = model(x, state)
        loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        nll += loss.item() * y.numel()
        count += y.numel()
    return nll / count / math.log(2)


def main():
    torch.manual_seed(0)
    text = "the quick brown fox jumps over the lazy dog. " * 200
    alphabet = sorted(set(text))
    index = {c: i for i, c in enumerate(alphabet)}
    data = batchify(torch.tensor([index[c] for c in text]), batch_size=8)
    model = CharLM(len(alphabet))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(3):
        print(f"epoch {epoch}: {train_epoch(model, data, optimizer):.3f} bpc")


if __name__ == "__main__":
    main()
