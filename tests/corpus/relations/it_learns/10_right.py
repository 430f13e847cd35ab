import math
from typing import Callable, Tuple

import torch
import torch.nn as nn
import torch.nn.functional as F


def warmup_cosine(warmup: int, total: int, floor: float = 0.05) -> Callable[[int], float]:
    """Learning rate factor: linear warm-up, then half a cosine down to ``floor``."""

    def factor(step: int) -> float:
        if step < warmup:
            return (step + 1) / warmup
        done = (step - warmup) / max(total - warmup, 1)
        return floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * min(done, 1.0)))

    return factor


class SequenceTagger(nn.Module):
    """Bidirectional LSTM tagger."""

    def __init__(self, vocab: int, tags: int, dim: int = 32):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.lstm = nn.LSTM(dim, dim, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * dim, tags)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.out(self.lstm(self.embed(tokens))[0])


class TaggerTrainer:
    """Trains a tagger with Adam under a warm-up schedule.

    Args:
        model: the tagger.
        lr: peak learning rate.
        warmup: number of warm-up steps.
        total: length of the whole schedule.
    """

    def __init__(self, model: nn.Module, lr: float = 5e-3, warmup: int = 500, total: int = 10000):
        self.model = model
        self.optimizer = torch.optim.Adam(model.parameters(), lr=lr)
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer, warmup_cosine(warmup, total))

    def step(self, batch: Tuple[torch.Tensor, torch.Tensor]) -> float:
        """One step on (tokens, tags); tags of -1 are padding."""
        tokens, tags = batch
        logits = self.model(tokens)
        loss = F.cross_entropy(logits.transpose(1, 2), tags, ignore_index=-1)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        self.scheduler.step()
        return loss.item()
