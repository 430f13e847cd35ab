# target: TaggerTrainer.step
"""Named-entity tagging with a BiLSTM."""
from dataclasses import dataclass
from typing import List, Sequence, Tuple

import torch
from torch import nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

PAD_TOKEN = 0
PAD_TAG = -100


@dataclass
class Sentence:
    tokens: List[int]
    tags: List[int]


def collate(sentences: Sequence[Sentence]) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    tokens = pad_sequence([torch.tensor(s.tokens) for s in sentences], batch_first=True, padding_value=PAD_TOKEN)
    tags = pad_sequence([torch.tensor(s.tags) for s in sentences], batch_first=True, padding_value=PAD_TAG)
    lengths = torch.tensor([len(s.tokens) for s in sentences])
    return tokens, tags, lengths


class BiLSTMTagger(nn.Module):
    def __init__(self, vocab: int, n_tags: int, dim: int = 64, hidden: int = 64):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim, padding_idx=PAD_TOKEN)
        self.lstm = nn.LSTM(dim, hidden, batch_first=True, bidirectional=True)
        self.drop = nn.Dropout(0.2)
        self.out = nn.Linear(2 * hidden, n_tags)

    def forward(self, tokens: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """(B, T) token ids -> (B, T, n_tags) logits"""
        packed = pack_padded_sequence(
            self.drop(self.embed(tokens)), lengths.cpu(), batch_first=True, enforce_sorted=False
        )
        h, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=tokens.size(1))
        return self.out(self.drop(h))


class TaggerTrainer:
    def __init__(self, model: BiLSTMTagger, lr: float = 2e-3, clip: float = 5.0):
        self.model = model
        self.clip = clip
        self.optimizer = torch.optim.Adam(model.parameters(), lr=lr)

    def step(self, sentences: Sequence[Sentence]) -> float:
        self.model.train()
        tokens, tags, lengths = collate(sentences)
        logits = self.model(tokens, lengths)
        loss = F.cross_entropy(logits.transpose(1, 2), tags, ignore_index=PAD_TAG)
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        self.optimizer.step()
        return loss.item()

    @torch.no_grad()
    def tag(self, sentences: Sequence[Sentence]) -> List[List[int]]:
        self.model.eval()
        tokens, _, lengths = collate(sentences)
        best = self.model(tokens, lengths).argmax(dim=-1)
        return [row[:n].tolist() for row, n in zip(best, lengths.tolist())]
