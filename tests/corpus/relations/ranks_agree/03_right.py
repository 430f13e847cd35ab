"""SimCLR-like training with a distributed sampler (Spijkervet/SimCLR #26)."""

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def get_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=8)
    return parser.parse_args()


def make_loader(args):
    data = TensorDataset(torch.randn(64, 10), torch.randint(0, 3, (64,)))
    sampler = DistributedSampler(data, shuffle=True)
    return DataLoader(data, batch_size=args.batch_size, sampler=sampler), sampler


def train_epoch(args, loader, model, criterion, optimizer):
    total = 0.0
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total


def main():
    args = get_args()
    dist.init_process_group(backend="gloo")
    loader, sampler = make_loader(args)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 3)))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        loss = train_epoch(args, loader, model, criterion, optimizer)
        if dist.get_rank() == 0:
            print(epoch, loss)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
