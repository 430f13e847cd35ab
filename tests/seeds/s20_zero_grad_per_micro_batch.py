"""S20: zero_grad at every micro-batch throws the accumulated gradients away: only the last micro-batch counts."""

import torch
import torch.nn as nn


def train(loader, accumulation_steps=4):
    model = nn.Linear(100, 10)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters())
    for i, (inputs, labels) in enumerate(loader):
        optimizer.zero_grad()  # expect: DG704
        loss = criterion(model(inputs), labels) / accumulation_steps
        loss.backward()
        if (i + 1) % accumulation_steps == 0 or i + 1 == len(loader):
            optimizer.step()
