"""S12: an evaluation loop without no_grad builds a graph that nobody uses."""

import torch
import torch.nn as nn


def evaluate(model, batches):
    model.eval()
    correct = 0
    for x, y in batches:
        scores = model(x)  # expect: DG506
        correct += (scores.argmax(1) == y).sum().item()
    return correct


if __name__ == "__main__":
    batches = [(torch.randn(4, 8).cuda(), torch.zeros(4, dtype=torch.long).cuda()) for _ in range(3)]
    evaluate(nn.Linear(8, 3).cuda(), batches)
