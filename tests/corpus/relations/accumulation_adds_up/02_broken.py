from typing import Dict, List

import torch
import torch.nn as nn
import torch.nn.functional as F


class MaskedLM(nn.Module):
    """One-layer transformer encoder with a token head."""

    def __init__(self, vocab: int, dim: int = 32, heads: int = 4, max_len: int = 128):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.pos = nn.Embedding(max_len, dim)
        self.layer = nn.TransformerEncoderLayer(
            dim, heads, 2 * dim, dropout=0.0, batch_first=True)
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        pos = torch.arange(ids.size(1), device=ids.device)
        return self.head(self.layer(self.tok(ids) + self.pos(pos)))


class MaskedLMTrainer:
    """Accumulates the gradient of a list of micro-batches per optimizer step.

    Every micro-batch is a dict with ``input_ids`` and ``labels``; positions
    whose label is -100 are not predicted.
    """

    def __init__(self, model: nn.Module, lr: float = 5e-4, max_norm: float = 1.0):
        self.model = model
        self.max_norm = max_norm
        self.optimizer = torch.optim.SGD(model.parameters(), lr=lr)

    def step(self, micro_batches: List[Dict[str, torch.Tensor]]) -> float:
        """One optimizer step over all micro-batches; returns the loss per token."""
        self.optimizer.zero_grad()
        total = 0.0
        for batch in micro_batches:
            logits = self.model(batch["input_ids"])
            loss = F.cross_entropy(
                logits.flatten(0, 1), batch["labels"].flatten(), ignore_index=-100)
            loss = loss / len(micro_batches)
            loss.backward()
            total += loss.item()
        nn.utils.clip_grad_norm_(self.model.parameters(), self.max_norm)
        self.optimizer.step()
        return total
