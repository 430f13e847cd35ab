# target: script
"""Sentence pairs for a small cross-encoder."""

import torch
from torch import nn


class Vocabulary:
    SPECIALS = ("<cls>", "<sep>", "<pad>")

    def __init__(self, sentences):
        words = sorted({word for sentence in sentences for word in sentence.split()})
        self.ids = {word: index for index, word in enumerate(words)}
        self.words = len(words)
        for offset, special in enumerate(self.SPECIALS):
            self.ids[special] = self.words + offset

    def __len__(self):
        return len(self.ids)

    def pair(self, left, right, length=16):
        tokens = ["<cls>", *left.split(), "<sep>", *right.split()]
        ids = [self.ids[token] for token in tokens][:length]
        return ids + [self.ids["<pad>"]] * (length - len(ids))


class CrossEncoder(nn.Module):
    def __init__(self, tokens, width=24):
        super().__init__()
        self.embedding = nn.Embedding(tokens, width)
        self.encoder = nn.GRU(width, width, batch_first=True)
        self.score = nn.Linear(width, 1)

    def forward(self, tokens):
        _, last = self.encoder(self.embedding(tokens))
        return self.score(last[-1]).squeeze(-1)


PAIRS = [("a cat sat down", "the cat is sitting"), ("rain fell all day", "stocks went up"), ("he left", "he went away")]
LABELS = [1.0, 0.0, 1.0]


def main():
    vocabulary = Vocabulary([sentence for pair in PAIRS for sentence in pair])
    tokens = torch.tensor([vocabulary.pair(left, right) for left, right in PAIRS])
    model = CrossEncoder(len(vocabulary))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(3):
        loss = nn.functional.binary_cross_entropy_with_logits(model(tokens), torch.tensor(LABELS))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
