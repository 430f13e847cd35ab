# target: script
# truth: OneCycleLR is made for epochs x batches steps, but steps once an epoch: the learning rate never leaves its
#   warm-up.
"""Regression of house prices with a one-cycle schedule."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class PriceNet(nn.Module):
    def __init__(self, features=13):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(features, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 1)
        )

    def forward(self, x):
        return self.layers(x).squeeze(-1)


def fit(model, loader, epochs=4, max_lr=1e-2):
    criterion = nn.SmoothL1Loss()
    optimizer = torch.optim.SGD(model.parameters(), lr=max_lr / 25, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr, epochs=epochs, steps_per_epoch=len(loader))
    rates = []
    for _ in range(epochs):
        model.train()
        for x, price in loader:
            optimizer.zero_grad()
            criterion(model(x), price).backward()
            optimizer.step()
        scheduler.step()  # error: DG709
        rates.append(scheduler.get_last_lr()[0])
    return rates


if __name__ == "__main__":
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(64, 13), torch.randn(64))
    print(fit(PriceNet(), DataLoader(data, batch_size=8, shuffle=True)))
