"""S19: forward and backward inside no_grad: nothing was recorded."""

import torch
import torch.nn as nn


def step(model, x):
    with torch.no_grad():
        loss = model(x).mean()
        loss.backward()  # expect: DG103


if __name__ == "__main__":
    step(nn.Linear(8, 1).cuda(), torch.randn(4, 8).cuda())
