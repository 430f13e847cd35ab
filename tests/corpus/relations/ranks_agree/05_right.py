"""Every rank iterates over its share of the files; shares differ (PyMarlin #80, pytorch #33148)."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, IterableDataset


class Shards(IterableDataset):
    def __init__(self, count, rank, world):
        self.count, self.rank, self.world = count, rank, world

    def __iter__(self):
        for index in range(self.rank, self.count - self.count % self.world, self.world):
            generator = torch.Generator().manual_seed(index)
            yield torch.randn(4, 12, generator=generator), torch.randint(0, 5, (4,), generator=generator)


def run():
    rank = int(os.environ["RANK"])
    world = int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo", rank=rank, world_size=world)
    model = DDP(nn.Linear(12, 5))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    loader = DataLoader(Shards(3, rank, world), batch_size=None)
    for epoch in range(2):
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    run()
