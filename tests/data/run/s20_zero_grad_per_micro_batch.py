"""S20: it does not accumulate: each micro-batch throws away what the ones before it have added."""

import torch
import torch.nn as nn


def train(model, optimizer, batches, accumulation=4):
    for index, x in enumerate(batches):
        optimizer.zero_grad()  # expect: DG704
        loss = model(x).pow(2).mean() / accumulation
        loss.backward()
        if (index + 1) % accumulation == 0:
            optimizer.step()


if __name__ == "__main__":
    model = nn.Linear(8, 1).cuda()
    train(model, torch.optim.SGD(model.parameters(), lr=0.1), [torch.randn(4, 8).cuda() for _ in range(8)])
