"""A detector whose second head takes no part in the loss at first (mmdetection3d #488, MedSegDiff #27)."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class TwoStage(nn.Module):
    def __init__(self, refine=False):
        super().__init__()
        self.refine = refine
        self.backbone = nn.Sequential(nn.Linear(24, 32), nn.ReLU())
        self.proposals = nn.Linear(32, 4)
        self.refinement = nn.Linear(32, 4)

    def forward(self, x):
        features = self.backbone(x)
        boxes = self.proposals(features)
        if self.refine:
            boxes = boxes + self.refinement(features)
        return boxes


def train(steps=4):
    torch.manual_seed(1)
    model = DistributedDataParallel(TwoStage(), find_unused_parameters=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    generator = torch.Generator().manual_seed(int(os.environ["RANK"]))
    for step in range(steps):
        x = torch.randn(8, 24, generator=generator)
        boxes = model(x)
        loss = boxes.abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def main():
    dist.init_process_group("gloo")
    train()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
