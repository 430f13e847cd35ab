"""S18: moving a batch under no_grad is harmless and has no effect: nothing to report."""

import torch
import torch.nn as nn


def train(loader, device):
    model = nn.Linear(10, 2).to(device)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, labels in loader:
        with torch.no_grad():
            inputs = inputs.to(device)
            labels = labels.to(device)
        optimizer.zero_grad()
        loss = criterion(model(inputs), labels)
        loss.backward()
        optimizer.step()
