import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

N_SENSOR = 8
N_CONTEXT = 8


class TabularNet(nn.Module):
    def __init__(self, hidden=32):
        super().__init__()
        self.sensor = nn.Sequential(nn.Linear(N_SENSOR, hidden), nn.ReLU())
        self.context = nn.Sequential(nn.Linear(N_CONTEXT, hidden), nn.ReLU())
        self.out = nn.Linear(2 * hidden, 1)

    def forward(self, x):
        a = self.sensor(x[:, :N_SENSOR])
        b = self.context(x[:, N_SENSOR:])
        return self.out(torch.cat([a, b], dim=1)).squeeze(1)


def load_data(n=256, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, N_SENSOR + N_CONTEXT)).astype("float32")
    w = rng.normal(size=N_SENSOR + N_CONTEXT).astype("float32")
    y = x @ w + 0.1 * rng.normal(size=n).astype("float32")
    return torch.from_numpy(x), torch.from_numpy(y)


def train(model, loader, epochs, lr=1e-2):
    opt = torch.optim.Adam(model.parameters(), lr=lr)
    for epoch in range(epochs):
        total = 0.0
        for xb, yb in loader:
            loss = nn.functional.mse_loss(model(xb), yb)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(xb)
        print(f"epoch {epoch}: {total / len(loader.dataset):.4f}")


if __name__ == "__main__":
    torch.manual_seed(0)
    x, y = load_data()
    train(TabularNet(), DataLoader(TensorDataset(x, y), 32, shuffle=True), epochs=5)
