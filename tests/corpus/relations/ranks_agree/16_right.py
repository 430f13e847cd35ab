"""Validation through the wrapped model on rank 0 only, buffers are broadcast (pytorch #54059, particleflow #233)."""

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def net():
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 3))


def validate(model, images, labels):
    model.train(False)
    with torch.no_grad():
        right = (model(images).argmax(1) == labels).float().mean()
    model.train(True)
    return right.item()


def worker(rank, world_size):
    dist.init_process_group("gloo", init_method="tcp://127.0.0.1:29511", rank=rank, world_size=world_size)
    torch.manual_seed(rank)
    model = DDP(net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        model.train()
        for _ in range(2):
            images, labels = torch.randn(8, 1, 8, 8), torch.randint(0, 3, (8,))
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if rank == 0:
            print(epoch, validate(model.module, torch.randn(16, 1, 8, 8), torch.randint(0, 3, (16,))))
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(worker, args=(2,), nprocs=2)
