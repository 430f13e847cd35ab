"""Use of a namespace package: acme.layers and acme.training, none with an __init__."""
import torch
from torch import nn

from acme.layers.gated import gated_stack
from acme.training.loop import Loop

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def target(x):
    return (x[:, :1] * x[:, 1:2]).tanh()


def batches(n):
    for _ in range(n):
        x = torch.randn(64, 4, device=DEVICE)
        yield x, target(x)


if __name__ == "__main__":
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 24), gated_stack(24, 2), nn.Linear(24, 1)).to(DEVICE)
    loop = Loop(model, torch.optim.AdamW(model.parameters(), lr=4e-3), nn.SmoothL1Loss())
    loop.run(batches(76))
    x = torch.randn(256, 4, device=DEVICE)
    print(f"evaluation {loop.evaluate(x, target(x)):.4f}")
