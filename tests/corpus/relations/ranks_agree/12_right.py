"""Only rank 0 makes the folder that all ranks write their shard to (nanochat #336)."""

import os

import torch
import torch.distributed as dist
from torch import nn


def save_checkpoint(folder, step, model, optimizer, rank):
    os.makedirs(folder, exist_ok=True)
    if rank == 0:
        torch.save(model.state_dict(), os.path.join(folder, f"model_{step:06d}.pt"))
    torch.save(optimizer.state_dict(), os.path.join(folder, f"optim_{step:06d}_rank{rank}.pt"))


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = nn.Linear(8, 8)
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(2):
        model(torch.randn(2, 8)).sum().backward()
        for p in model.parameters():
            dist.all_reduce(p.grad, op=dist.ReduceOp.AVG) if dist.get_backend() == "nccl" else dist.all_reduce(p.grad)
        optimizer.step()
        optimizer.zero_grad()
    save_checkpoint("out/base", 2, model, optimizer, rank)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
