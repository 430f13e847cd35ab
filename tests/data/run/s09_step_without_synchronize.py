"""S9: one stream is ordered: step() needs no synchronize() after backward()."""

import torch
import torch.nn as nn


def train(model, optimizer):
    for _ in range(3):
        optimizer.zero_grad()
        loss = model(torch.randn(4, 8, device="cuda")).pow(2).mean()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    model = nn.Linear(8, 1).cuda()
    train(model, torch.optim.SGD(model.parameters(), lr=0.1))
