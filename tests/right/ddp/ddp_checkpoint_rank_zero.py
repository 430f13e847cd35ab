"""Rank zero writes the checkpoint, all wait, and every rank loads it onto its own device."""
# launch: torchrun --standalone --nproc-per-node=2 {file}
import os
import shutil
import tempfile

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


def pick_device(local_rank):
    if torch.cuda.is_available() and torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"]):
        torch.cuda.set_device(local_rank)
        return torch.device("cuda", local_rank)
    return torch.device("cpu")


def shared_folder(rank):
    """Made by rank zero, its name told to the others."""
    box = [tempfile.mkdtemp(prefix="ddp_") if rank == 0 else None]
    dist.broadcast_object_list(box, src=0)
    return box[0]


def train_steps(model, opt, device, n, rank):
    for i in range(n):
        g = torch.Generator().manual_seed(1000 * rank + i)
        x = torch.randn(8, 4, generator=g).to(device)
        opt.zero_grad()
        (model(x) - x.sum(1, keepdim=True)).square().mean().backward()
        opt.step()


def main():
    dist.init_process_group("gloo")  # also carries CUDA tensors of this small model
    rank, local_rank = dist.get_rank(), int(os.environ["LOCAL_RANK"])
    device = pick_device(local_rank)
    torch.manual_seed(0)
    model = DDP(nn.Linear(4, 1).to(device), device_ids=[local_rank] if device.type == "cuda" else None)
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    train_steps(model, opt, device, 10, rank)

    folder = shared_folder(rank)
    path = os.path.join(folder, "state.pt")
    if rank == 0:
        torch.save({"model": model.module.state_dict(), "opt": opt.state_dict()}, path)
    dist.barrier()

    fresh = nn.Linear(4, 1).to(device)
    state = torch.load(path, map_location=device, weights_only=True)
    fresh.load_state_dict(state["model"])
    assert all(torch.equal(a, b) for a, b in zip(fresh.parameters(), model.module.parameters()))
    dist.barrier()
    if rank == 0:
        shutil.rmtree(folder)
        print("loaded by all ranks, weight", [round(w, 2) for w in fresh.weight.detach().flatten().tolist()])
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
