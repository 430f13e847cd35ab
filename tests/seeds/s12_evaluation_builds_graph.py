"""S12: evaluation under no_grad is sound; without it every batch builds a graph that nobody needs."""

import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(28 * 28, 10)

    def forward(self, x):
        return self.fc(x.flatten(1))


def evaluate(model, loader):
    model.eval()
    correct = 0
    for images, labels in loader:
        logits = model(images)  # expect: DG506
        correct += (logits.argmax(dim=1) == labels).sum().item()
    return correct / len(loader.dataset)


@torch.no_grad()
def evaluate_rightly(model, loader):
    model.eval()
    correct = 0
    for images, labels in loader:
        correct += (model(images).argmax(dim=1) == labels).sum().item()
    return correct / len(loader.dataset)
