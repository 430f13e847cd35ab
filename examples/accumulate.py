"""Gradient accumulation with mixed precision, as many articles print it. It runs, and one micro-batch in four counts."""

import torch
import torch.nn as nn
from torch.cuda.amp import GradScaler, autocast
from torch.utils.data import DataLoader, TensorDataset

ACCUMULATION_STEPS = 4


class Regressor(nn.Module):
    def __init__(self, width: int = 512):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(256, width), nn.GELU(), nn.Linear(width, 1))

    def forward(self, inputs):
        return self.layers(inputs)


def train(model, loader, optimizer):
    criterion = nn.MSELoss()
    scaler = GradScaler()
    for step, (inputs, targets) in enumerate(loader):
        optimizer.zero_grad()
        inputs, targets = inputs.cuda(), targets.cuda()
        with autocast():
            loss = criterion(model(inputs), targets)
            scaler.scale(loss).backward()
        if (step + 1) % ACCUMULATION_STEPS == 0:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            print(f"step {step}: loss {loss.item():.3f}")


def main():
    data = TensorDataset(torch.randn(1000, 256), torch.randn(1000, 1))
    model = Regressor().cuda()
    train(model, DataLoader(data, batch_size=16, shuffle=True), torch.optim.AdamW(model.parameters(), lr=3e-4))
    torch.save(model.state_dict, "regressor.pt")


if __name__ == "__main__":
    main()
