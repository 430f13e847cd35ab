"""S14: memory grows from step to step, for a list keeps each step's graph."""

import torch
import torch.nn as nn


def train(model, optimizer):
    history = []
    for _ in range(8):
        optimizer.zero_grad()
        loss = model(torch.randn(256, 64, device="cuda")).pow(2).mean()
        loss.backward(retain_graph=True)
        optimizer.step()
        history.append(loss)  # expect: DG501
    return history


if __name__ == "__main__":
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1)).cuda()
    train(model, torch.optim.SGD(model.parameters(), lr=0.01))
