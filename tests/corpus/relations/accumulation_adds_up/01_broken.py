"""Train a tiny classifier with gradient accumulation."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def make_data(n=256, dim=20, classes=4, seed=0):
    g = torch.Generator().manual_seed(seed)
    centers = torch.randn(classes, dim, generator=g) * 2
    y = torch.randint(0, classes, (n,), generator=g)
    return TensorDataset(centers[y] + torch.randn(n, dim, generator=g), y)


def build(dim=20, classes=4):
    return nn.Sequential(nn.Linear(dim, 64), nn.ReLU(), nn.Linear(64, classes))


def train(model, loader, optimizer, accum_steps, epochs=1):
    model.train()
    seen, losses = 0, []
    optimizer.zero_grad()
    for _ in range(epochs):
        for x, y in loader:
            loss = F.cross_entropy(model(x), y)
            losses.append(loss.item())
            loss.backward()
            seen += 1
            if seen % accum_steps == 0:
                optimizer.step()
                optimizer.zero_grad()
    return losses


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--micro", type=int, default=16)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--epochs", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    loader = DataLoader(make_data(), batch_size=args.micro, shuffle=True, drop_last=True)
    model = build()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    losses = train(model, loader, optimizer, args.batch // args.micro, args.epochs)
    print(f"loss {losses[0]:.3f} -> {losses[-1]:.3f}")


if __name__ == "__main__":
    main()
