# target: MaskedPool.forward
"""Pooling of event sequences of customers, some of whom have no events."""

import torch
from torch import nn


class MaskedPool(nn.Module):
    def forward(self, events, mask):
        total = (events * mask.unsqueeze(-1)).sum(dim=1)
        return total / mask.sum(dim=1, keepdim=True).clamp(min=1)


class CustomerModel(nn.Module):
    def __init__(self, kinds=20, width=16):
        super().__init__()
        self.kinds = nn.Embedding(kinds, width)
        self.amount = nn.Linear(1, width)
        self.pool = MaskedPool()
        self.value = nn.Sequential(nn.Linear(width, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, kinds, amounts, mask):
        events = self.kinds(kinds) + self.amount(amounts.unsqueeze(-1))
        return self.value(self.pool(events, mask)).squeeze(-1)


def make_batch(lengths, longest=6):
    mask = torch.zeros(len(lengths), longest)
    for row, length in enumerate(lengths):
        mask[row, :length] = 1
    kinds = torch.randint(0, 20, (len(lengths), longest))
    return kinds, torch.rand(len(lengths), longest), mask


def main():
    torch.manual_seed(0)
    model = CustomerModel()
    kinds, amounts, mask = make_batch([6, 2, 0, 4])
    loss = nn.functional.l1_loss(model(kinds, amounts, mask), torch.rand(4))
    loss.backward()
    print(loss.item())


if __name__ == "__main__":
    main()
