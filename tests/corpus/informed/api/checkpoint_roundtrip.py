# target: script
# truth: `model.state_dict` without parentheses saves the bound method, not the weights; loading it by load_state_dict
#   fails.
"""Saves the weights at the end of a training, and loads them for inference."""

import tempfile
from pathlib import Path

import torch
from torch import nn


class Ranker(nn.Module):
    def __init__(self, users=20, items=30, width=8):
        super().__init__()
        self.users = nn.Embedding(users, width)
        self.items = nn.Embedding(items, width)

    def forward(self, users, items):
        return (self.users(users) * self.items(items)).sum(dim=-1)


def bpr(model, users, liked, other):
    return -nn.functional.logsigmoid(model(users, liked) - model(users, other)).mean()


def train(model, path, steps=3):
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.1)
    for _ in range(steps):
        users, liked, other = torch.randint(0, 20, (16,)), torch.randint(0, 30, (16,)), torch.randint(0, 30, (16,))
        optimizer.zero_grad()
        bpr(model, users, liked, other).backward()
        optimizer.step()
    torch.save({"model": model.state_dict, "steps": steps}, path)  # error: DG802


def load(path):
    model = Ranker()
    checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    model.load_state_dict(checkpoint["model"])
    return model.eval()


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ranker.pt"
        train(Ranker(), path)
        with torch.no_grad():
            print(load(path)(torch.arange(4), torch.arange(4)))


if __name__ == "__main__":
    main()
