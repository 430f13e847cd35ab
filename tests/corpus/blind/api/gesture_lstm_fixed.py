# target: script
"""Gesture recognition from wrist-worn IMU windows."""
import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

WINDOW = 50
CHANNELS = 6
GESTURES = ("swipe", "circle", "shake", "idle")


class ImuWindows(Dataset):
    def __init__(self, n_windows: int, seed: int = 0):
        rng = np.random.default_rng(seed)
        self.labels = rng.integers(0, len(GESTURES), n_windows)
        t = np.linspace(0, 1, WINDOW)
        freq = np.array([1.0, 3.0, 8.0, 0.0])[self.labels]
        phase = rng.uniform(0, 2 * np.pi, (n_windows, CHANNELS, 1))
        wave = np.sin(2 * np.pi * freq[:, None, None] * t + phase)
        wave = wave + 0.3 * rng.standard_normal(wave.shape)
        self.windows = wave.transpose(0, 2, 1).astype(np.float32)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, i: int):
        return torch.from_numpy(self.windows[i]), int(self.labels[i])


class GestureLSTM(nn.Module):
    def __init__(self, hidden: int = 48, layers: int = 1):
        super().__init__()
        self.norm = nn.LayerNorm(CHANNELS)
        self.lstm = nn.LSTM(CHANNELS, hidden, num_layers=layers, batch_first=True)
        self.fc = nn.Linear(hidden, len(GESTURES))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: (batch, WINDOW, CHANNELS) -> (batch, n_gestures)"""
        out, _ = self.lstm(self.norm(x))
        return self.fc(out[:, -1])


def run_epoch(model, loader, optimizer=None):
    training = optimizer is not None
    model.train(training)
    criterion = nn.CrossEntropyLoss()
    total, hits = 0.0, 0
    with torch.set_grad_enabled(training):
        for x, y in loader:
            logits = model(x)
            loss = criterion(logits, y)
            if training:
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            total += loss.item() * len(y)
            hits += (logits.argmax(dim=1) == y).sum().item()
    n = len(loader.dataset)
    return total / n, hits / n


if __name__ == "__main__":
    torch.manual_seed(0)
    train_loader = DataLoader(ImuWindows(512), batch_size=32, shuffle=True)
    test_loader = DataLoader(ImuWindows(128, seed=1), batch_size=32)
    model = GestureLSTM()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(6):
        train_loss, train_acc = run_epoch(model, train_loader, optimizer)
        test_loss, test_acc = run_epoch(model, test_loader)
        print(f"{epoch}: train {train_loss:.3f}/{train_acc:.2f} test {test_loss:.3f}/{test_acc:.2f}")
