# target: evaluate
# truth: The evaluation records a graph for each batch that no backward ever uses; no_grad is missing.
"""Forecasts of several horizons, evaluated by pinball loss."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

QUANTILES = (0.1, 0.5, 0.9)


class Forecaster(nn.Module):
    def __init__(self, series=3, horizon=6, width=24):
        super().__init__()
        self.horizon = horizon
        self.encoder = nn.GRU(series, width, num_layers=2, batch_first=True)
        self.head = nn.Linear(width, horizon * len(QUANTILES))

    def forward(self, history):
        _, hidden = self.encoder(history)
        return self.head(hidden[-1]).view(-1, self.horizon, len(QUANTILES))


def pinball(forecast, actual):
    error = actual.unsqueeze(-1) - forecast
    quantiles = torch.tensor(QUANTILES, device=forecast.device)
    return torch.maximum(quantiles * error, (quantiles - 1) * error).mean()


def evaluate(model, loader, device):
    model.eval()
    losses, covered = [], []
    for history, actual in loader:
        forecast = model(history.to(device))  # error: DG506
        actual = actual.to(device)
        losses.append(pinball(forecast, actual).item())
        inside = (actual >= forecast[..., 0]) & (actual <= forecast[..., -1])
        covered.append(inside.float().mean().item())
    return sum(losses) / len(losses), sum(covered) / len(covered)


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    data = TensorDataset(torch.randn(32, 20, 3), torch.randn(32, 6))
    model = Forecaster().to(device)
    print(evaluate(model, DataLoader(data, batch_size=8), device))


if __name__ == "__main__":
    main()
