"""DDP with BatchNorm: SyncBatchNorm on GPUs, broadcast buffers else, and ranks that agree afterwards."""
# launch: torchrun --standalone --nproc-per-node=2 {file}
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def world_device():
    local, n_local = int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"])
    if torch.cuda.is_available() and torch.cuda.device_count() >= n_local:
        return torch.device("cuda", local), "nccl"
    return torch.device("cpu"), "gloo"


def check_in_sync(module):
    """Parameters of every rank must equal those of rank zero."""
    for p in module.parameters():
        reference = p.detach().clone()
        dist.broadcast(reference, src=0)
        torch.testing.assert_close(p.detach(), reference)


def main():
    device, backend = world_device()
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group(backend)
    rank = dist.get_rank()
    torch.manual_seed(7)
    net = nn.Sequential(nn.Conv1d(1, 8, 3, padding=1), nn.BatchNorm1d(8), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(8, 1))
    if device.type == "cuda":
        net = nn.SyncBatchNorm.convert_sync_batchnorm(net)
    ddp = DistributedDataParallel(net.to(device), device_ids=[device.index] if device.type == "cuda" else None)
    optimizer = torch.optim.Adam(ddp.parameters(), lr=1e-2)
    gen = torch.Generator().manual_seed(rank)
    for step in range(20):
        freq = torch.randint(1, 5, (16, 1), generator=gen).float()
        x = torch.sin(freq * torch.linspace(0, 6.28, 24)).unsqueeze(1).to(device)
        target = freq.to(device)
        loss = nn.functional.smooth_l1_loss(ddp(x), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0 and rank == 0:
            print(f"step {step}: loss on rank zero {loss.item():.3f}")
    check_in_sync(ddp.module)
    dist.barrier()
    if rank == 0:
        print("parameters agree on", dist.get_world_size(), "ranks")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
