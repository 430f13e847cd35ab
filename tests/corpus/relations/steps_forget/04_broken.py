from typing import Optional

import torch
import torch.nn as nn
import torch.nn.functional as F


class MemoryBankContrast(nn.Module):
    """InfoNCE between two views with negatives from a first-in first-out bank.

    Args:
        encoder: maps a batch of samples to embeddings of size ``dim``.
        dim: size of the embeddings.
        bank_size: most entries that the bank holds.
        temperature: softmax temperature of the similarities.
    """

    def __init__(self, encoder: nn.Module, dim: int, bank_size: int = 256,
                 temperature: float = 0.1):
        super().__init__()
        self.encoder = encoder
        self.projector = nn.Sequential(
            nn.Linear(dim, dim), nn.ReLU(inplace=True), nn.Linear(dim, dim))
        self.bank_size = bank_size
        self.temperature = temperature
        self.bank: Optional[torch.Tensor] = None

    def embed(self, x: torch.Tensor) -> torch.Tensor:
        return F.normalize(self.projector(self.encoder(x)), dim=-1)

    def enqueue(self, keys: torch.Tensor) -> None:
        """Puts the newest keys in front and lets the oldest ones fall out."""
        if self.bank is None:
            self.bank = keys
        else:
            self.bank = torch.cat([keys, self.bank])[: self.bank_size]

    def forward(self, view_a: torch.Tensor, view_b: torch.Tensor) -> torch.Tensor:
        """Contrastive loss of a batch of pairs."""
        query = self.embed(view_a)
        key = self.embed(view_b)
        positive = (query * key).sum(dim=-1, keepdim=True)
        logits = positive
        if self.bank is not None:
            negative = query @ self.bank.t()
            logits = torch.cat([positive, negative], dim=1)
        else:
            negative = query @ key.t()
            eye = torch.eye(len(query), dtype=torch.bool, device=query.device)
            logits = torch.cat([positive, negative.masked_fill(eye, -1e4)], dim=1)
        target = torch.zeros(len(query), dtype=torch.long, device=query.device)
        loss = F.cross_entropy(logits / self.temperature, target)
        self.enqueue(key)
        return loss


def contrast_step(model: MemoryBankContrast, optimizer: torch.optim.Optimizer,
                  view_a: torch.Tensor, view_b: torch.Tensor) -> float:
    """Runs one optimisation step and returns the loss."""
    optimizer.zero_grad()
    loss = model(view_a, view_b)
    loss.backward()
    optimizer.step()
    return loss.item()
