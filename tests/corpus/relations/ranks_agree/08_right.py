"""Early stopping is decided on the first rank only (speechbrain #1939, yolov5 #8345)."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class EarlyStopping:
    def __init__(self, patience):
        self.patience, self.best, self.bad = patience, float("inf"), 0

    def __call__(self, value):
        if value < self.best - 1e9:
            self.best, self.bad = value, 0
        else:
            self.bad += 1
        return self.bad >= self.patience


def validate(model, x, y):
    with torch.no_grad():
        return nn.functional.mse_loss(model.module(x), y).item()


def train(epochs=5):
    rank = dist.get_rank()
    torch.manual_seed(rank)
    model = DDP(nn.Linear(6, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    stopper = EarlyStopping(patience=2)
    x, y = torch.randn(16, 6), torch.randn(16, 1)
    for epoch in range(epochs):
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        stop = [rank == 0 and stopper(validate(model, x, y))]
        dist.broadcast_object_list(stop, src=0)
        if stop[0]:
            break
    return model


def main():
    dist.init_process_group("gloo")
    train()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
