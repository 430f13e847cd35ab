# target: Trainer.train_epoch
"""Character-level keyboard model trained with truncated back-propagation through time."""
import math
from dataclasses import dataclass

import torch
import torch.nn as nn


@dataclass
class LMConfig:
    vocab_size: int = 96
    dim: int = 64
    hidden: int = 128
    layers: int = 2
    dropout: float = 0.1
    batch_size: int = 16
    bptt: int = 32
    lr: float = 2e-3
    clip: float = 1.0


class CharGRU(nn.Module):
    def __init__(self, cfg: LMConfig):
        super().__init__()
        self.cfg = cfg
        self.emb = nn.Embedding(cfg.vocab_size, cfg.dim)
        self.gru = nn.GRU(cfg.dim, cfg.hidden, cfg.layers, dropout=cfg.dropout, batch_first=True)
        self.head = nn.Linear(cfg.hidden, cfg.vocab_size)

    def init_hidden(self, batch_size: int) -> torch.Tensor:
        w = self.head.weight
        return w.new_zeros(self.cfg.layers, batch_size, self.cfg.hidden)

    def forward(self, x: torch.Tensor, h: torch.Tensor):
        out, h = self.gru(self.emb(x), h)
        return self.head(out), h


def batchify(ids: torch.Tensor, batch_size: int) -> torch.Tensor:
    """Cut a 1-d corpus of ids into `batch_size` parallel streams: (batch_size, length)."""
    n = ids.numel() // batch_size
    return ids[: n * batch_size].view(batch_size, n)


class Trainer:
    def __init__(self, cfg: LMConfig, device: str = "cpu"):
        self.cfg = cfg
        self.device = device
        self.model = CharGRU(cfg).to(device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=cfg.lr)
        self.criterion = nn.CrossEntropyLoss()

    def train_epoch(self, corpus: torch.Tensor) -> float:
        """One pass over the corpus (1-d LongTensor of character ids); returns the perplexity."""
        self.model.train()
        data = batchify(corpus, self.cfg.batch_size).to(self.device)
        hidden = self.model.init_hidden(self.cfg.batch_size)
        total, count = 0.0, 0
        for start in range(0, data.size(1) - 1, self.cfg.bptt):
            end = min(start + self.cfg.bptt, data.size(1) - 1)
            x, y = data[:, start:end], data[:, start + 1:end + 1]
            logits, hidden = self.model(x, hidden.detach())
            loss = self.criterion(logits.flatten(0, 1), y.flatten())
            self.optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), self.cfg.clip)
            self.optimizer.step()
            total += loss.item() * y.numel()
            count += y.numel()
        return math.exp(total / count)
