"""A batch without a valid sample is skipped by the rank that has it alone (NeMo Automodel #2468)."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def batches(rank):
    generator = torch.Generator().manual_seed(7 * rank)
    for index in range(4):
        tokens = torch.randint(1, 50, (4, 10), generator=generator)
        labels = tokens.clone()
        if index == 1 and rank == 1:
            labels[:] = -100
        yield tokens, labels


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, 16)
        self.out = nn.Linear(16, 50)

    def forward(self, tokens):
        return self.out(self.embed(tokens))


def everybody(flag):
    agreed = torch.tensor([int(flag)])
    dist.all_reduce(agreed, op=dist.ReduceOp.MIN)
    return bool(agreed.item())


def train(rank):
    model = DDP(Tagger())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for tokens, labels in batches(rank):
        valid = (labels != -100).any()
        if not valid:
            continue
        loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), labels.flatten(), ignore_index=-100)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def main():
    dist.init_process_group("gloo")
    train(int(os.environ["RANK"]))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
