"""S21: backward under autocast."""

import torch
import torch.nn as nn


def step(model, optimizer, scaler, x):
    with torch.autocast("cuda", dtype=torch.float16):
        loss = model(x).pow(2).mean()
        scaler.scale(loss).backward()  # expect: DG707
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()


if __name__ == "__main__":
    model = nn.Linear(8, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step(model, optimizer, torch.amp.GradScaler("cuda"), torch.randn(4, 8).cuda())
