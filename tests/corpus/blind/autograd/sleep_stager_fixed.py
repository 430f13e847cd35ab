# target: training_step
"""Gated temporal convolutions for EEG sleep staging."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def open_at_least(gate, floor):
    """Keep every channel slightly open so that no electrode is ever ignored."""
    return gate.clamp(min=floor)


class ChannelGate(nn.Module):
    def __init__(self, channels, reduction=4, floor=0.1):
        super().__init__()
        hidden = max(channels // reduction, 2)
        self.squeeze = nn.Linear(channels, hidden)
        self.excite = nn.Linear(hidden, channels)
        self.floor = floor

    def forward(self, x):
        # x: (batch, channels, time)
        summary = x.mean(dim=-1)
        gate = torch.sigmoid(self.excite(F.relu(self.squeeze(summary))))
        gate = open_at_least(gate, self.floor)
        return x * gate.unsqueeze(-1)


class TemporalBlock(nn.Module):
    def __init__(self, channels, kernel_size=7):
        super().__init__()
        self.conv = nn.Conv1d(channels, channels, kernel_size, padding=kernel_size // 2)
        self.norm = nn.BatchNorm1d(channels)
        self.gate = ChannelGate(channels)

    def forward(self, x):
        return x + self.gate(F.gelu(self.norm(self.conv(x))))


class SleepStager(nn.Module):
    """Maps raw 30 s epochs (batch, n_channels, samples) to stage logits."""

    def __init__(self, n_channels=6, n_classes=5, width=16, depth=2):
        super().__init__()
        self.stem = nn.Conv1d(n_channels, width, kernel_size=11, stride=2, padding=5)
        self.blocks = nn.Sequential(*[TemporalBlock(width) for _ in range(depth)])
        self.head = nn.Linear(width, n_classes)

    def forward(self, x):
        h = self.blocks(self.stem(x))
        return self.head(h.mean(dim=-1))


def training_step(model, optimizer, signals, stages):
    """One optimisation step; returns the detached loss.

    signals: float (batch, n_channels, samples); stages: long (batch,)
    """
    model.train()
    loss = F.cross_entropy(model(signals), stages)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()
