"""Rate reviews with one to five stars. The text looks right; its values are not, and only a run sees values."""

import torch
import torch.nn as nn
import torch.nn.functional as F

REVIEWS = """\
5 I read it twice
1 too long
4 a fine book

3 the end came too soon
"""


class Rater(nn.Module):
    def __init__(self, words: int = 1000, stars: int = 5):
        super().__init__()
        self.embedding = nn.Embedding(words, 32)
        self.head = nn.Linear(32, stars)

    def forward(self, words, lengths):
        total = self.embedding(words).sum(dim=1)
        return self.head(total / lengths.unsqueeze(1))


def read():
    lines = [line[2:].split() for line in REVIEWS.splitlines()]
    stars = torch.tensor([int(line[:1] or 3) for line in REVIEWS.splitlines()])
    words = torch.zeros(len(lines), 8, dtype=torch.long)
    for row, line in enumerate(lines):
        for column, word in enumerate(line):
            words[row, column] = sum(map(ord, word)) % 1000
    return words, torch.tensor([len(line) for line in lines]), stars


def main():
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = Rater().to(device)
    words, lengths, stars = (part.to(device) for part in read())
    loss = F.cross_entropy(model(words, lengths), stars)
    loss.backward()


if __name__ == "__main__":
    main()
