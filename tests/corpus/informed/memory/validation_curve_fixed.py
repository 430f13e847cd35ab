# target: train
"""Training of an autoencoder with a learning curve."""

import torch
from torch import nn


class AutoEncoder(nn.Module):
    def __init__(self, size=64, code=8):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(size, 32), nn.ELU(), nn.Linear(32, code))
        self.decode = nn.Sequential(nn.Linear(code, 32), nn.ELU(), nn.Linear(32, size))

    def forward(self, x):
        return self.decode(self.encode(x))


def batches(data, size):
    order = torch.randperm(len(data))
    for start in range(0, len(data), size):
        yield data[order[start : start + size]]


def train(model, data, epochs=2, batch_size=16):
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    curve = []
    for _ in range(epochs):
        for batch in batches(data, batch_size):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(batch), batch)
            loss.backward()
            optimizer.step()
            curve.append(loss.detach())
    return torch.stack(curve)


def smoothed(curve, weight=0.9):
    value, values = curve[0], []
    for each in curve:
        value = weight * value + (1 - weight) * each
        values.append(value.item())
    return values


if __name__ == "__main__":
    torch.manual_seed(0)
    curve = train(AutoEncoder(), torch.rand(96, 64))
    print(smoothed(curve)[-1])
