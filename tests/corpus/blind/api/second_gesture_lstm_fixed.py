# target: GestureClassifier.forward
"""Hand-gesture classification from IMU recordings (accelerometer and gyroscope)."""
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import Dataset


class IMUDataset(Dataset):
    """Windows of 50 frames with 6 channels; a gesture is a burst on one channel."""

    def __init__(self, n: int = 256, frames: int = 50, n_gestures: int = 4, seed: int = 0):
        gen = torch.Generator().manual_seed(seed)
        self.labels = torch.randint(0, n_gestures, (n,), generator=gen)
        self.windows = torch.randn(n, frames, 6, generator=gen) * 0.3
        for i, g in enumerate(self.labels.tolist()):
            self.windows[i, 30:45, g] += 2.0

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, i: int):
        return self.windows[i], self.labels[i]


class GestureClassifier(nn.Module):
    def __init__(self, n_channels: int = 6, hidden: int = 32, n_gestures: int = 4):
        super().__init__()
        self.norm = nn.LayerNorm(n_channels)
        self.lstm = nn.LSTM(n_channels, hidden, num_layers=1, batch_first=True)
        self.fc = nn.Linear(hidden, n_gestures)

    def forward(self, windows: torch.Tensor) -> torch.Tensor:
        """windows: (batch, time, channels) -> logits (batch, gestures)"""
        out, _ = self.lstm(self.norm(windows))
        return self.fc(out[:, -1])


def train(model: GestureClassifier, loader, epochs: int = 5, lr: float = 5e-3) -> float:
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    model.train()
    loss = torch.tensor(0.0)
    for _ in range(epochs):
        for windows, labels in loader:
            loss = F.cross_entropy(model(windows), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return loss.item()


@torch.no_grad()
def accuracy(model: GestureClassifier, loader) -> float:
    model.eval()
    hits = [(model(w).argmax(1) == y).float() for w, y in loader]
    return torch.cat(hits).mean().item()
