"""S14: memory grows because graphs are kept, not because nobody called empty_cache(), which only slows the loop."""

import torch
import torch.nn as nn


def train(loader, epochs):
    model = nn.Linear(10, 2)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    history = []
    for _ in range(epochs):
        running = 0.0
        for inputs, labels in loader:
            optimizer.zero_grad()
            loss = criterion(model(inputs), labels)
            loss.backward()
            optimizer.step()
            history.append(loss)  # expect: DG501
            running += loss  # expect: DG502
            torch.cuda.empty_cache()  # expect: DG505 hint
        print(running / len(loader))
    return history


def train_rightly(loader, epochs):
    model = nn.Linear(10, 2)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    history = []
    for _ in range(epochs):
        running = torch.zeros(())
        for inputs, labels in loader:
            optimizer.zero_grad()
            loss = criterion(model(inputs), labels)
            loss.backward()
            optimizer.step()
            history.append(loss.detach())
            running += loss.detach()
        print(running / len(loader))
    return history
