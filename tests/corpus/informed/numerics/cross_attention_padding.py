# target: script
# truth: A document without any token masks a whole row with -inf; its softmax is NaN and spreads to all parameters in
#   backward.
"""Question answering: questions attend to documents of different lengths, some of which are empty."""

import torch
from torch import nn


class CrossAttention(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)

    def forward(self, question: torch.Tensor, document: torch.Tensor, padding: torch.Tensor) -> torch.Tensor:
        scores = self.query(question) @ self.key(document).transpose(1, 2) / question.shape[-1] ** 0.5
        scores = scores.masked_fill(padding[:, None, :], float("-inf"))  # error: DG410
        return scores.softmax(dim=-1) @ self.value(document)


class Reader(nn.Module):
    def __init__(self, words: int = 100, width: int = 16) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.attention = CrossAttention(width)
        self.answer = nn.Linear(width, 2)

    def forward(self, question: torch.Tensor, document: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        padding = torch.arange(document.shape[1], device=document.device)[None, :] >= lengths[:, None]
        mixed = self.attention(self.embedding(question), self.embedding(document), padding)
        return self.answer(mixed.mean(dim=1))


def main() -> None:
    torch.manual_seed(0)
    model = Reader()
    question, document = torch.randint(0, 100, (3, 5)), torch.randint(0, 100, (3, 9))
    lengths = torch.tensor([9, 4, 0])
    loss = nn.functional.cross_entropy(model(question, document, lengths), torch.tensor([0, 1, 1]))
    loss.backward()
    print(loss.item(), sum(p.grad.isfinite().all().item() for p in model.parameters()))


if __name__ == "__main__":
    main()
