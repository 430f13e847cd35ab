"""Warm-up, cosine, one-cycle and plateau schedules, each stepped where it belongs."""
import math

import torch
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR, LambdaLR, LinearLR, OneCycleLR, ReduceLROnPlateau, SequentialLR

EPOCHS = 6
STEPS_PER_EPOCH = 10
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def warmup_then_cosine(step: int, warmup: int = 10, total: int = EPOCHS * STEPS_PER_EPOCH) -> float:
    if step < warmup:
        return (step + 1) / warmup
    progress = (step - warmup) / max(1, total - warmup)
    return 0.5 * (1 + math.cos(math.pi * progress))


def build(kind, optimizer):
    total = EPOCHS * STEPS_PER_EPOCH
    if kind == "lambda":
        return LambdaLR(optimizer, warmup_then_cosine), "batch"
    if kind == "onecycle":
        return OneCycleLR(optimizer, max_lr=0.1, total_steps=total), "batch"
    if kind == "sequential":
        warm = LinearLR(optimizer, start_factor=0.1, total_iters=2)
        cosine = CosineAnnealingLR(optimizer, T_max=EPOCHS - 2)
        return SequentialLR(optimizer, [warm, cosine], milestones=[2]), "epoch"
    return ReduceLROnPlateau(optimizer, patience=1, factor=0.5), "plateau"


def run(kind):
    torch.manual_seed(2)
    w = torch.randn(8, 1, device=device)
    model = nn.Linear(8, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    scheduler, when = build(kind, optimizer)
    x_val = torch.randn(64, 8, device=device)
    y_val = x_val @ w
    val_loss = float("nan")
    for _epoch in range(EPOCHS):
        model.train()
        for _ in range(STEPS_PER_EPOCH):
            x = torch.randn(32, 8, device=device)
            loss = nn.functional.mse_loss(model(x), x @ w)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            if when == "batch":
                scheduler.step()
        model.eval()
        with torch.no_grad():
            val_loss = nn.functional.mse_loss(model(x_val), y_val).item()
        if when == "epoch":
            scheduler.step()
        elif when == "plateau":
            scheduler.step(val_loss)
    return val_loss, optimizer.param_groups[0]["lr"]


if __name__ == "__main__":
    for name in ("lambda", "onecycle", "sequential", "plateau"):
        final, lr = run(name)
        print(f"{name:>10}: validation {final:.4f}, last lr {lr:.5f}")
