"""S8: "memory access violation" is an index out of range: of a class, of a token, of a position."""

import torch
import torch.nn as nn


class Classifier(nn.Module):
    def __init__(self, vocabulary, classes):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, 32)
        self.out = nn.Linear(32, classes)

    def forward(self, tokens):
        return self.out(self.embedding(tokens).mean(dim=1))  # expect: DG302 warning


def right():
    scores = torch.randn(4, 10, requires_grad=True)
    labels = torch.tensor([0, 3, -100, 9])
    nn.functional.cross_entropy(scores, labels).backward()
    scores.gather(1, torch.tensor([[0], [9], [4], [1]])).sum().backward()


def wrong():
    model = Classifier(vocabulary=1000, classes=10)
    scores = model(torch.randint(0, 1001, (4, 20)))
    loss = nn.functional.cross_entropy(scores, torch.tensor([1, 5, 10, 2]))  # expect: DG302 error
    loss.backward()
    return scores.gather(1, torch.tensor([[0], [-1], [4], [1]]))  # expect: DG302 error


if __name__ == "__main__":
    right()
    wrong()
