"""Spoken-digit-like classification of synthetic tones with a 1-D CNN."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

RATE = 400


def tones(n, classes=4):
    label = torch.arange(n) % classes
    freq = 10.0 + 15.0 * label + torch.randn(n)
    time = torch.arange(RATE // 2) / RATE
    wave = torch.sin(2 * math.pi * freq[:, None] * time + 6.28 * torch.rand(n, 1))
    return wave + 0.1 * torch.randn_like(wave), label


class ToneNet(nn.Module):
    def __init__(self, classes=4, width=24):
        super().__init__()
        self.front = nn.Conv1d(1, width, 41, stride=4)
        self.mid = nn.Conv1d(width, width, 5, stride=2)
        self.fc = nn.Linear(width, classes)

    def forward(self, wave):
        h = F.relu(self.front(wave.unsqueeze(1)))
        h = F.relu(self.mid(h))
        return self.fc(h.amax(dim=-1))


def shuffled(wave, label):
    wave = wave[torch.randperm(len(wave))]
    label = label[torch.randperm(len(label))]
    return wave, label


def train_step(model, optimizer, wave, label):
    wave, label = shuffled(wave, label)
    total = 0.0
    for x, y in zip(wave.split(32), label.split(32)):
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(x)
    return total / len(wave)


if __name__ == "__main__":
    torch.manual_seed(0)
    wave, label = tones(96)
    model = ToneNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(12):
        loss = train_step(model, optimizer, wave, label)
        if epoch % 3 == 0:
            print(f"epoch {epoch} loss {loss:.4f}")
