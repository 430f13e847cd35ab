"""S21: backward and step do not belong under autocast, and torch.cuda.amp has been renamed."""

import torch
import torch.nn as nn
from torch.cuda.amp import GradScaler, autocast


def train(loader):
    model = nn.Linear(100, 10).cuda()
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters())
    scaler = GradScaler()  # expect: DG801
    for inputs, labels in loader:
        optimizer.zero_grad()
        with autocast():  # expect: DG801
            loss = criterion(model(inputs.cuda()), labels.cuda())
            scaler.scale(loss).backward()  # expect: DG707
            scaler.step(optimizer)
            scaler.update()


def train_rightly(loader):
    model = nn.Linear(100, 10).cuda()
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters())
    scaler = torch.amp.GradScaler("cuda")
    for inputs, labels in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = criterion(model(inputs.cuda()), labels.cuda())
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
