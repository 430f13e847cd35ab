# target: ToxicityModel.training_step
# truth: binary_cross_entropy_with_logits wants float targets; the multi-hot labels are int64: "result type Float can't
#   be cast to the desired output type Long".
"""Multi-label comment classification; the trainer calls training_step."""

import torch
import torch.nn as nn
import torch.nn.functional as F

LABELS = ("toxic", "severe", "obscene", "threat", "insult", "identity")


def multi_hot(rows: list[list[int]], classes: int) -> torch.Tensor:
    hot = torch.zeros(len(rows), classes, dtype=torch.long)
    for row, positives in enumerate(rows):
        hot[row, positives] = 1
    return hot


class ToxicityModel(nn.Module):
    def __init__(self, vocabulary: int = 1000, width: int = 32):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.encoder = nn.TransformerEncoderLayer(width, 4, 64, batch_first=True)
        self.classifier = nn.Linear(width, len(LABELS))

    def forward(self, tokens):
        return self.classifier(self.encoder(self.embedding(tokens)).mean(dim=1))

    def training_step(self, batch, batch_idx):
        tokens, rows = batch
        labels = multi_hot(rows, len(LABELS)).to(tokens.device)
        logits = self(tokens)
        return F.binary_cross_entropy_with_logits(logits, labels)  # error: DG310

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-4)


def smoke():
    model = ToxicityModel()
    batch = torch.randint(0, 1000, (3, 10)), [[0, 2], [], [4]]
    loss = model.training_step(batch, 0)
    loss.backward()
    return loss.item()


if __name__ == "__main__":
    print(smoke())
