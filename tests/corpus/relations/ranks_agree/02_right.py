"""Gradient statistics that are reduced for the logger (Neuron_SP #197: a conditional collective)."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Logger:
    def __init__(self, enabled):
        self.enabled = enabled
        self.rows = []

    def log(self, **values):
        if self.enabled:
            self.rows.append(values)


def global_grad_norm(parameters):
    total = torch.zeros(())
    for p in parameters:
        if p.grad is not None:
            total += p.grad.pow(2).sum()
    dist.all_reduce(total)
    return total.sqrt()


def train(rank, steps=6):
    torch.manual_seed(0)
    model = DDP(nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    logger = Logger(enabled=rank == 0)
    data = torch.Generator().manual_seed(rank)
    for step in range(steps):
        x = torch.randn(8, 16, generator=data)
        loss = model(x).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        norm = global_grad_norm(model.parameters())
        if logger.enabled:
            logger.log(step=step, loss=loss.item(), norm=norm.item())
        optimizer.step()


def main():
    dist.init_process_group("gloo")
    train(int(os.environ["RANK"]))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
