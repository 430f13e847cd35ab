# target: main
# truth: collate calls torch.tensor on a list of numpy arrays, which converts element by element through Python (PyTorch warns that it is extremely slow); the loader takes most of the time of the epoch.
"""Recognise gait from windows of an accelerometer worn on the wrist."""
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class GaitWindows(Dataset):
    def __init__(self, subjects=4, minutes=4, rate=50, window=256, stride=64, seed=0):
        rng = np.random.default_rng(seed)
        self.window = window
        self.tracks, self.index = [], []
        n = minutes * 60 * rate
        for s in range(subjects):
            t = np.arange(n) / rate
            walking = (np.sin(2 * np.pi * t / 40 + s) > 0).astype(np.float32)
            step = np.sin(2 * np.pi * (1.7 + 0.1 * s) * t) * walking
            track = rng.normal(0, 0.3, (n, 6)).astype(np.float32)
            track[:, :3] += step[:, None].astype(np.float32)
            self.tracks.append((track, walking))
            self.index += [(s, i) for i in range(0, n - window, stride)]

    def __len__(self):
        return len(self.index)

    def __getitem__(self, i):
        s, start = self.index[i]
        track, walking = self.tracks[s]
        part = slice(start, start + self.window)
        return track[part], int(walking[part].mean() > 0.5)


def collate(batch):
    windows, labels = zip(*batch)
    return torch.tensor(windows), torch.tensor(labels)  # error: DG609


class GaitNet(nn.Module):
    def __init__(self, channels=6, width=8):
        super().__init__()
        self.conv = nn.Conv1d(channels, width, 9, stride=4)
        self.head = nn.Linear(2 * width, 2)

    def forward(self, x):
        h = torch.relu(self.conv(x.transpose(1, 2)))
        return self.head(torch.cat([h.mean(-1), h.amax(-1)], dim=1))


def run_epoch(model, loader, optimizer):
    right = 0
    for x, y in loader:
        logits = model(x)
        loss = nn.functional.cross_entropy(logits, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        right += (logits.argmax(1) == y).sum().item()
    return right / len(loader.dataset)


def main(epochs=2):
    torch.manual_seed(0)
    loader = DataLoader(GaitWindows(), batch_size=64, shuffle=True, collate_fn=collate)
    model = GaitNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for epoch in range(epochs):
        begin = time.perf_counter()
        accuracy = run_epoch(model, loader, optimizer)
        print(f"epoch {epoch}: {accuracy:.3f} in {time.perf_counter() - begin:.2f} s")


if __name__ == "__main__":
    main()
