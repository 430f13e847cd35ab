# target: Finetuner.fit
# truth: The optimizer is built before set_horizon replaces the head, so it holds the discarded head's parameters; the
#   new, randomly initialised head is never updated (and its gradient, never zeroed, grows and eats the clipping norm),
#   so the loss hardly falls; no error.
"""Fine-tuning of a pre-trained TCN forecaster on a new series with another horizon."""
from dataclasses import dataclass

import torch
from torch import nn


@dataclass(frozen=True)
class FinetuneConfig:
    horizon: int = 24
    encoder_lr: float = 1e-4
    head_lr: float = 1e-3
    epochs: int = 10
    max_norm: float = 1.0


class CausalBlock(nn.Module):
    def __init__(self, channels, dilation):
        super().__init__()
        self.pad = 2 * dilation
        self.conv = nn.Conv1d(channels, channels, 3, dilation=dilation)
        self.norm = nn.GroupNorm(1, channels)

    def forward(self, x):
        h = self.conv(nn.functional.pad(x, (self.pad, 0)))
        return x + torch.relu(self.norm(h))


class TCNForecaster(nn.Module):
    def __init__(self, n_features, horizon, channels=32, depth=4):
        super().__init__()
        self.channels = channels
        self.stem = nn.Conv1d(n_features, channels, 1)
        self.blocks = nn.Sequential(*(CausalBlock(channels, 2 ** i) for i in range(depth)))
        self.head = nn.Linear(channels, horizon)

    def forward(self, x):
        """x: (batch, time, features) -> (batch, horizon)."""
        h = self.blocks(self.stem(x.transpose(1, 2)))
        return self.head(h[:, :, -1])

    def set_horizon(self, horizon):
        old = self.head.weight
        self.head = nn.Linear(self.channels, horizon).to(old.device, old.dtype)


def parameter_groups(model, cfg):
    encoder = [*model.stem.parameters(), *model.blocks.parameters()]
    return [
        {"params": encoder, "lr": cfg.encoder_lr},
        {"params": list(model.head.parameters()), "lr": cfg.head_lr},
    ]


class Finetuner:
    def __init__(self, model, cfg, device):
        self.model, self.cfg, self.device = model.to(device), cfg, device
        self.optimizer = torch.optim.AdamW(parameter_groups(self.model, cfg))  # error: DG715
        self.model.set_horizon(cfg.horizon)
        self.criterion = nn.HuberLoss()

    def train_epoch(self, loader):
        self.model.train()
        total = torch.zeros((), device=self.device)
        for history, future in loader:
            history, future = history.to(self.device), future.to(self.device)
            loss = self.criterion(self.model(history), future)
            self.optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), self.cfg.max_norm)
            self.optimizer.step()
            total += loss.detach()
        return total.item() / len(loader)

    def fit(self, loader):
        return [self.train_epoch(loader) for _ in range(self.cfg.epochs)]
