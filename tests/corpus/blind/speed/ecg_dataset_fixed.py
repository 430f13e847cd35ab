# target: script
"""Arrhythmia classification on single-lead ECG beats (Kaggle 'heartbeat' style)."""
import time

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

SEED = 13
N_RECORDS = 2000
LENGTH = 720
N_CLASSES = 4
BATCH_SIZE = 50
EPOCHS = 1


class BeatDataset(Dataset):
    def __init__(self, signals: torch.Tensor, labels: torch.Tensor, augment: bool = False):
        assert len(signals) == len(labels)
        self.signals = signals
        self.mean, self.std = signals.mean(), signals.std()
        self.labels = labels
        self.augment = augment

    def __len__(self):
        return len(self.labels)

    def normalise(self, x):
        return (x - self.mean) / self.std

    def __getitem__(self, i):
        x = self.normalise(self.signals[i])
        if self.augment:
            shift = int(torch.randint(-20, 21, ()))
            x = torch.roll(x, shift) * (0.9 + 0.2 * torch.rand(()))
        return x.unsqueeze(0), self.labels[i]


class BeatNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(1, 16, 7, stride=4, padding=3), nn.BatchNorm1d(16), nn.ReLU(),
            nn.Conv1d(16, 32, 7, stride=4, padding=3), nn.BatchNorm1d(32), nn.ReLU(),
            nn.AdaptiveAvgPool1d(8), nn.Flatten(),
            nn.Linear(32 * 8, N_CLASSES),
        )

    def forward(self, x):
        return self.net(x)


def synthetic_beats(n):
    labels = torch.randint(0, N_CLASSES, (n,))
    t = torch.linspace(0, 1, LENGTH)
    width = 0.02 + 0.03 * labels.float()
    peak = torch.exp(-0.5 * ((t - 0.5) / width.unsqueeze(1)) ** 2)
    return 400.0 + 150.0 * peak + 10.0 * torch.randn(n, LENGTH), labels


def main():
    torch.manual_seed(SEED)
    dataset = BeatDataset(*synthetic_beats(N_RECORDS), augment=True)
    loader = DataLoader(dataset, batch_size=BATCH_SIZE, shuffle=True)
    model = BeatNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(EPOCHS):
        start, total = time.perf_counter(), 0.0
        for x, y in loader:
            loss = criterion(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch}: loss {total / len(loader):.4f} in {time.perf_counter() - start:.1f}s")


if __name__ == "__main__":
    main()
