# target: Trainer.train_epoch
"""Mixed-precision classification trainer shared by the imaging experiments."""
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class TrainConfig:
    lr: float = 0.05
    momentum: float = 0.9
    weight_decay: float = 1e-4
    max_grad_norm: float = 1.0
    epochs: int = 30
    amp: bool = True


class Trainer:
    def __init__(self, model: nn.Module, cfg: TrainConfig, device: str = "cuda"):
        self.device = torch.device(device)
        self.model = model.to(self.device)
        self.cfg = cfg
        self.optimizer = torch.optim.SGD(
            self.model.parameters(), lr=cfg.lr, momentum=cfg.momentum, weight_decay=cfg.weight_decay
        )
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, T_max=cfg.epochs)
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=cfg.amp)

    def _forward(self, images, labels):
        with torch.autocast(self.device.type, dtype=torch.float16, enabled=self.cfg.amp):
            logits = self.model(images)
            return F.cross_entropy(logits, labels)

    def _update(self, loss):
        self.optimizer.zero_grad(set_to_none=True)
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.optimizer)
        nn.utils.clip_grad_norm_(self.model.parameters(), self.cfg.max_grad_norm)
        self.scaler.step(self.optimizer)
        self.scaler.update()

    def train_epoch(self, loader):
        """Runs one pass over loader and returns the mean training loss."""
        self.model.train()
        total = torch.zeros((), device=self.device)
        seen = 0
        for images, labels in loader:
            images = images.to(self.device)
            labels = labels.to(self.device)
            loss = self._forward(images, labels)
            self._update(loss)
            total += loss.detach() * len(labels)
            seen += len(labels)
        return (total / seen).item()

    @torch.no_grad()
    def accuracy(self, loader):
        self.model.eval()
        hits, seen = torch.zeros((), device=self.device), 0
        for images, labels in loader:
            pred = self.model(images.to(self.device)).argmax(dim=1)
            hits += (pred == labels.to(self.device)).sum()
            seen += len(labels)
        return (hits / seen).item()

    def fit(self, train_loader, valid_loader):
        for epoch in range(self.cfg.epochs):
            loss = self.train_epoch(train_loader)
            self.scheduler.step()
            print(f"epoch {epoch}: loss {loss:.4f} acc {self.accuracy(valid_loader):.3f}")
