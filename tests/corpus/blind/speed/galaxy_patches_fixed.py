# target: script
"""Galaxy morphology regression from a pre-extracted array of stamps on disk."""
import os
import tempfile
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


def write_stamps(folder: str, n: int = 512, size: int = 64, seed: int = 0) -> str:
    """Elliptical blobs with random axis ratio; stands in for the survey's export."""
    rng = np.random.default_rng(seed)
    ratio = rng.uniform(0.3, 1.0, n).astype(np.float32)
    yy, xx = np.mgrid[:size, :size].astype(np.float32) - size / 2
    r2 = (xx[None] / 10) ** 2 + (yy[None] / (10 * ratio[:, None, None])) ** 2
    stamps = np.exp(-r2) + 0.05 * rng.standard_normal(r2.shape, dtype=np.float32)
    np.save(os.path.join(folder, "stamps.npy"), stamps.astype(np.float32))
    np.save(os.path.join(folder, "ratio.npy"), ratio)
    return folder


class GalaxyDataset(Dataset):
    def __init__(self, folder: str, augment: bool = True):
        self.stamps = np.load(os.path.join(folder, "stamps.npy"))
        self.ratio = torch.from_numpy(np.load(os.path.join(folder, "ratio.npy")))
        self.augment = augment

    def __len__(self):
        return len(self.ratio)

    def __getitem__(self, i):
        x = torch.tensor(self.stamps[i]).unsqueeze(0)
        if self.augment and torch.rand(()) < 0.5:
            x = x.flip(-1)
        return x, self.ratio[i]


class RatioNet(nn.Module):
    def __init__(self, width: int = 8):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, width, 5, stride=4, padding=2), nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, stride=2, padding=1), nn.ReLU(),
            nn.Flatten(), nn.Linear(2 * width * 64, 1),
        )

    def forward(self, x):
        return self.net(x).squeeze(-1)


def train_epoch(model, loader, optimizer):
    model.train()
    total = 0.0
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * y.numel()
    return total / len(loader.dataset)


def main():
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        dataset = GalaxyDataset(write_stamps(folder))
        loader = DataLoader(dataset, batch_size=64, shuffle=True)
        model = RatioNet()
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        for epoch in range(2):
            start = time.perf_counter()
            loss = train_epoch(model, loader, optimizer)
            print(f"epoch {epoch}: mse {loss:.4f} ({time.perf_counter() - start:.2f} s)")


if __name__ == "__main__":
    main()
