"""S9: one stream is ordered: step() cannot run before the gradients are there, and synchronize() only slows."""

import torch
import torch.nn as nn


def train(loader):
    model = nn.Linear(10, 2).cuda()
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters())
    for inputs, labels in loader:
        optimizer.zero_grad()
        loss = criterion(model(inputs.cuda()), labels.cuda())
        loss.backward()
        torch.cuda.synchronize()  # expect: DG602 hint
        optimizer.step()


def train_as_it_should_be(loader):
    model = nn.Linear(10, 2).cuda()
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters())
    for inputs, labels in loader:
        optimizer.zero_grad()
        loss = criterion(model(inputs.cuda()), labels.cuda())
        loss.backward()
        optimizer.step()
