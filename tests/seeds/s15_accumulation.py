"""S15: accumulation that is sound but drops the last incomplete group, and the ways to get it wrong."""

import torch
import torch.nn as nn

STEPS = 4


def sound_but_for_its_tail(loader, epochs):
    model = nn.Linear(10, 2)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(epochs):
        for i, (inputs, labels) in enumerate(loader):
            loss = criterion(model(inputs), labels) / STEPS
            loss.backward()
            if (i + 1) % STEPS == 0:  # expect: DG706 hint
                optimizer.step()
                optimizer.zero_grad()


def with_its_tail(loader, epochs):
    model = nn.Linear(10, 2)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(epochs):
        for i, (inputs, labels) in enumerate(loader):
            loss = criterion(model(inputs), labels) / STEPS
            loss.backward()
            if (i + 1) % STEPS == 0 or i + 1 == len(loader):
                optimizer.step()
                optimizer.zero_grad()


def unscaled(loader, epochs):
    model = nn.Linear(10, 2)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(epochs):
        for i, (inputs, labels) in enumerate(loader):
            loss = criterion(model(inputs), labels)
            loss.backward()  # expect: DG705
            if (i + 1) % STEPS == 0 or i + 1 == len(loader):
                optimizer.step()
                optimizer.zero_grad()


def never_zeroed(loader, epochs):
    model = nn.Linear(10, 2)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(epochs):
        for inputs, labels in loader:
            loss = criterion(model(inputs), labels)
            loss.backward()  # expect: DG703
            optimizer.step()
