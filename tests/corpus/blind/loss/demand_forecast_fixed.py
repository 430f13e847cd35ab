# target: script
"""Hourly electricity demand: asymmetric regression on tabular features."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def make_frame(n, n_features=6, seed=0):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, n_features, generator=g)
    y = 2.0 * x[:, 0] - 1.5 * x[:, 1] + torch.sin(3.0 * x[:, 2])
    return x, y + 0.05 * torch.randn(n, generator=g)


class DemandNet(nn.Module):
    """Point forecaster; returns one value per row, shape (batch,)."""

    def __init__(self, n_features, width=32):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(n_features, width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.ReLU(),
        )
        self.head = nn.Linear(width, 1)

    def forward(self, x):
        return self.head(self.body(x)).squeeze(-1)


def asymmetric_huber(pred, target, delta=1.0, under_weight=1.5):
    """Under-forecasting costs more than over-forecasting. Both inputs (batch,)."""
    err = target - pred
    absolute = err.abs()
    huber = torch.where(absolute < delta, 0.5 * err ** 2, delta * (absolute - 0.5 * delta))
    weight = torch.where(err > 0, under_weight, 1.0)
    return (weight * huber).mean()


def fit(model, loader, epochs, lr=5e-3):
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    model.train()
    for _ in range(epochs):
        for x, y in loader:
            x, y = x.to(DEVICE), y.to(DEVICE)
            loss = asymmetric_huber(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


@torch.no_grad()
def mean_absolute_error(model, x, y):
    model.eval()
    pred = model(x.to(DEVICE)).flatten()
    return (pred - y.to(DEVICE)).abs().mean().item()


if __name__ == "__main__":
    torch.manual_seed(0)
    x_train, y_train = make_frame(1024)
    x_valid, y_valid = make_frame(256, seed=1)
    train_loader = DataLoader(TensorDataset(x_train, y_train), batch_size=64, shuffle=True)
    net = DemandNet(x_train.shape[1]).to(DEVICE)
    fit(net, train_loader, epochs=15)
    print("validation MAE:", round(mean_absolute_error(net, x_valid, y_valid), 4))
