# target: script
# gpu-memory: 256MiB
"""Matrix completion on implicit feedback, data held in memory."""

import torch
from torch import nn


class Completion(nn.Module):
    def __init__(self, items, width=16):
        super().__init__()
        self.encode = nn.Linear(items, width)
        self.decode = nn.Linear(width, items)

    def forward(self, rows):
        return self.decode(torch.relu(self.encode(rows)))


def load_interactions(users, items):
    interactions = torch.zeros(users, items)
    interactions[torch.arange(users), torch.randint(0, items, (users,))] = 1
    return interactions


def train(model, interactions, device, batch_size=64, steps=3):
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(steps):
        rows = torch.arange(step * batch_size, (step + 1) * batch_size)
        batch = interactions[rows].to(device)
        loss = nn.functional.binary_cross_entropy_with_logits(model(batch), batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    interactions = load_interactions(users=50_000, items=2_000)
    train(Completion(2_000).to(device), interactions, device)


if __name__ == "__main__":
    main()
