"""Segmentation training whose checkpoint is written by every process (awesome-semantic-segmentation #67)."""

import os
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Trainer:
    def __init__(self, save_dir="runs"):
        self.rank = int(os.environ["RANK"])
        self.save_to_disk = self.rank == 0
        self.save_dir = Path(save_dir)
        self.save_dir.mkdir(exist_ok=True)
        images = torch.rand(32, 3, 8, 8)
        masks = torch.randint(0, 4, (32, 8, 8))
        data = TensorDataset(images, masks)
        self.sampler = DistributedSampler(data)
        self.loader = DataLoader(data, batch_size=4, sampler=self.sampler, drop_last=True)
        self.model = DistributedDataParallel(nn.Conv2d(3, 4, 3, padding=1))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)

    def fit(self, epochs=2):
        for epoch in range(epochs):
            self.sampler.set_epoch(epoch)
            for image, mask in self.loader:
                loss = nn.functional.cross_entropy(self.model(image), mask)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
            self.save_checkpoint(epoch)

    def save_checkpoint(self, epoch):
        state = {"epoch": epoch, "model": self.model.module.state_dict()}
        torch.save(state, self.save_dir / "last.pth")


if __name__ == "__main__":
    dist.init_process_group(backend="gloo")
    Trainer().fit()
    dist.destroy_process_group()
