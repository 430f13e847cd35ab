# target: script
# truth: The gradients are cleared at each micro-batch, so that only the last of four counts: zero_grad belongs behind
#   the step.
"""Fine-tuning with gradient accumulation."""

import argparse

import torch
from torch import nn


def build(classes):
    backbone = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU())
    return nn.Sequential(backbone, nn.Linear(64, classes))


def finetune(model, loader, accumulate, lr):
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.01)
    criterion = nn.CrossEntropyLoss()
    model.train()
    for index, (x, y) in enumerate(loader, start=1):
        optimizer.zero_grad()  # error: DG704
        loss = criterion(model(x), y) / accumulate
        loss.backward()
        if index % accumulate == 0 or index == len(loader):
            optimizer.step()


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--accumulate", type=int, default=4)
    parser.add_argument("--lr", type=float, default=1e-4)
    parser.add_argument("--classes", type=int, default=5)
    return parser.parse_args()


def main():
    args = parse()
    torch.manual_seed(0)
    loader = [(torch.randn(8, 32), torch.randint(0, args.classes, (8,))) for _ in range(8)]
    finetune(build(args.classes), loader, args.accumulate, args.lr)


if __name__ == "__main__":
    main()
