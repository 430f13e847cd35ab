# target: IntentModel.forward
"""Intent classification of utterances, with packed sequences."""

import torch
import torch.nn as nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence


class IntentModel(nn.Module):
    def __init__(self, vocabulary: int = 300, width: int = 32, intents: int = 7):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width, padding_idx=0)
        self.encoder = nn.LSTM(width, width, batch_first=True, bidirectional=True)
        self.dropout = nn.Dropout(0.3)
        self.classifier = nn.Linear(2 * width, intents)

    def encode(self, tokens: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        packed = pack_padded_sequence(self.embedding(tokens), lengths.cpu(), batch_first=True, enforce_sorted=False)
        _, (hidden, _) = self.encoder(packed)
        return torch.cat([hidden[0], hidden[1]], dim=1)

    def forward(self, tokens: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        return self.classifier(self.dropout(self.encode(tokens, lengths)))


def collate(utterances):
    tokens = pad_sequence([torch.tensor(ids) for ids, _ in utterances], batch_first=True)
    lengths = torch.tensor([len(ids) for ids, _ in utterances])
    return tokens, lengths, torch.tensor([intent for _, intent in utterances])


def main():
    batch = [([5, 8, 2], 1), ([17, 4, 4, 90, 11], 6), ([3], 0)]
    tokens, lengths, intents = collate(batch)
    model = IntentModel()
    loss = nn.functional.cross_entropy(model(tokens, lengths), intents)
    loss.backward()


if __name__ == "__main__":
    main()
