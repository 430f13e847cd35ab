# target: Experiment.run
"""Kaggle-style tabular regression: monthly rent from flat features."""
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


def load_table(n_rows: int = 512, seed: int = 7):
    rng = np.random.default_rng(seed)
    area = rng.uniform(20, 140, n_rows)
    rooms = np.round(area / 28 + rng.normal(0, 0.5, n_rows)).clip(1)
    floor = rng.integers(0, 9, n_rows)
    centre = rng.exponential(3.0, n_rows)
    rent = 250 + 9.5 * area + 35 * rooms + 8 * floor - 30 * centre + rng.normal(0, 40, n_rows)
    x = np.stack([area, rooms, floor, centre], axis=1)
    x = (x - x.mean(0)) / x.std(0)
    y = (rent - rent.mean()) / rent.std()
    return x.astype(np.float32), y.astype(np.float32)


class RentNet(nn.Module):
    def __init__(self, n_features: int):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(n_features, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
        self.out = nn.Linear(64, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.body(x)).squeeze(-1)


class Experiment:
    def __init__(self, epochs: int = 25, lr: float = 2e-3):
        self.epochs, self.lr = epochs, lr

    def run(self, x: np.ndarray, y: np.ndarray) -> dict:
        split = int(0.8 * len(x))
        train_set = TensorDataset(torch.from_numpy(x[:split]), torch.from_numpy(y[:split]))
        model = RentNet(x.shape[1])
        optimizer = torch.optim.Adam(model.parameters(), lr=self.lr)
        for _ in range(self.epochs):
            for features, rent in DataLoader(train_set, batch_size=64, shuffle=True):
                loss = F.mse_loss(model(features), rent)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()

        model.eval()
        with torch.no_grad():
            pred = model(torch.from_numpy(x[split:])).flatten().numpy()
        resid = ((pred - y[split:]) ** 2).sum()
        total = ((y[split:] - y[split:].mean()) ** 2).sum()
        return {"r2": float(1 - resid / total), "n_test": len(pred)}


def main():
    torch.manual_seed(0)
    print(Experiment().run(*load_table()))


if __name__ == "__main__":
    main()
