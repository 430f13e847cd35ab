# target: tagging_loss
# truth: cross_entropy takes the classes in dimension 1; the scores are (batch, length, tags): "Expected target size [4,
#   9], got [4, 7]".
"""Part-of-speech tagging with a bidirectional LSTM."""

import torch
from torch import nn
from torch.nn import functional as F

PAD = 0
TAGS = ["<pad>", "NOUN", "VERB", "ADJ", "ADV", "DET", "ADP", "PRON", "PUNCT"]


class Tagger(nn.Module):
    def __init__(self, words: int, width: int = 24) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width, padding_idx=PAD)
        self.lstm = nn.LSTM(width, width, batch_first=True, bidirectional=True)
        self.scores = nn.Linear(2 * width, len(TAGS))

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        hidden, _ = self.lstm(self.embed(words))
        return self.scores(hidden)


def tagging_loss(model: Tagger, words: torch.Tensor, tags: torch.Tensor) -> torch.Tensor:
    scores = model(words)
    return F.cross_entropy(scores, tags, ignore_index=PAD)  # error: DG313


def accuracy(model: Tagger, words: torch.Tensor, tags: torch.Tensor) -> float:
    with torch.no_grad():
        predicted = model(words).argmax(dim=-1)
    real = tags != PAD
    return (predicted[real] == tags[real]).float().mean().item()


def main() -> None:
    words = torch.randint(1, 200, (4, 7))
    tags = torch.randint(1, len(TAGS), (4, 7))
    model = Tagger(200)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(3):
        optimizer.zero_grad()
        tagging_loss(model, words, tags).backward()
        optimizer.step()
    print(accuracy(model, words, tags))


if __name__ == "__main__":
    main()
