# target: script
# truth: The LSTM's state is carried from one window to the next with its graph; the second backward() goes through the
#   first window's graph again: "Trying to backward through the graph a second time".
"""Character language model, trained by truncated backpropagation through time."""

import torch
from torch import nn

TEXT = "the quick brown fox jumps over the lazy dog. " * 12


class CharModel(nn.Module):
    def __init__(self, vocabulary, width=32):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.rnn = nn.LSTM(width, width, batch_first=True)
        self.decode = nn.Linear(width, vocabulary)

    def forward(self, tokens, state=None):
        output, state = self.rnn(self.embed(tokens), state)
        return self.decode(output), state


def windows(stream, size):
    for start in range(0, stream.size(1) - size - 1, size):
        yield stream[:, start : start + size], stream[:, start + 1 : start + size + 1]


def train_epoch(model, stream, optimizer, criterion, window=16):
    state = None
    total, count = 0.0, 0
    for inputs, targets in windows(stream, window):
        optimizer.zero_grad()
        logits, state = model(inputs, state)  # error: DG108
        loss = criterion(logits.flatten(0, 1), targets.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        total, count = total + loss.item(), count + 1
    return total / count


def main():
    letters = sorted(set(TEXT))
    codes = torch.tensor([letters.index(letter) for letter in TEXT])
    stream = codes[: len(codes) // 4 * 4].view(4, -1)
    model = CharModel(len(letters))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(2):
        print(epoch, train_epoch(model, stream, optimizer, nn.CrossEntropyLoss()))


if __name__ == "__main__":
    main()
