"""Seed every generator, run the same experiment twice and compare; worker seeds follow the base seed."""
import random

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


def seed_everything(seed: int) -> torch.Generator:
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True
    generator = torch.Generator()
    generator.manual_seed(seed)
    return generator


def seed_worker(worker_id: int) -> None:
    worker_seed = torch.initial_seed() % 2**32
    np.random.seed(worker_seed)
    random.seed(worker_seed)


class NoisySquares(Dataset):
    """Draws its augmentation noise from numpy, which `seed_worker` seeds in each worker."""

    def __init__(self, n: int = 64):
        self.x = torch.linspace(-1, 1, n).unsqueeze(1)

    def __len__(self) -> int:
        return self.x.size(0)

    def __getitem__(self, i: int):
        x = self.x[i]
        jitter = float(np.random.normal(scale=0.01))
        return x + jitter, x**2


def experiment(seed: int) -> float:
    generator = seed_everything(seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(
        NoisySquares(), batch_size=16, shuffle=True, num_workers=2, worker_init_fn=seed_worker, generator=generator
    )
    net = nn.Sequential(nn.Linear(1, 16), nn.ReLU(), nn.Linear(16, 1)).to(device)
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)
    epoch_loss = torch.zeros((), device=device)
    for _ in range(2):
        epoch_loss = torch.zeros((), device=device)
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            loss = nn.functional.mse_loss(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            epoch_loss += loss.detach()
    return (epoch_loss / len(loader)).item()


if __name__ == "__main__":
    first, second, other = experiment(123), experiment(123), experiment(124)
    print(f"same seed {first:.6f} {second:.6f}, other seed {other:.6f}")
    assert abs(first - second) < 1e-7
