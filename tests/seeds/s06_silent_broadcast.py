"""S6: reshaping both sides alike is right; (64, 1) against (64,) broadcasts to (64, 64), silently."""

import torch
import torch.nn as nn


class Regressor(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, x):
        return self.layers(x)


def right():
    target, prediction = torch.randn(10), torch.randn(10, requires_grad=True)
    criterion = nn.MSELoss(reduction="sum")
    total = criterion(prediction, target)
    total = total + criterion(prediction.reshape(2, 5), target.reshape(2, 5))
    total.backward()


def wrong():
    model = Regressor()
    x, y = torch.randn(64, 16), torch.randn(64)
    criterion = nn.MSELoss()
    loss = criterion(model(x), y)  # expect: DG303
    loss.backward()


if __name__ == "__main__":
    right()
    wrong()
