"""Gradient accumulation with mixed precision, as many articles print it. It runs, and only one micro-batch in four counts."""

import torch
import torch.nn as nn
from torch.cuda.amp import GradScaler, autocast

model = nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 1)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
criterion = nn.MSELoss()
scaler = GradScaler()
accumulation_steps = 4


def train(loader):
    for step, (inputs, targets) in enumerate(loader):
        optimizer.zero_grad()
        inputs, targets = inputs.cuda(), targets.cuda()
        with autocast():
            loss = criterion(model(inputs), targets)
            scaler.scale(loss).backward()
        if (step + 1) % accumulation_steps == 0:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
