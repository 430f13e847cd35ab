"""FSDP2 with accumulation by set_requires_gradient_sync and a clipped norm that is a DTensor."""
# launch: torchrun --standalone --nproc-per-node=2 {file}
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn import GELU, Linear, Sequential
from torch.nn.utils import clip_grad_norm_

ACCUM = 2


def as_plain(x):
    return x.full_tensor() if isinstance(x, DTensor) else x


def train(model, mesh, steps):
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    g = torch.Generator().manual_seed(5 + dist.get_rank())
    for step in range(steps):
        total = torch.zeros((), device=mesh.device_type)
        for micro in range(ACCUM):
            model.set_requires_gradient_sync(micro == ACCUM - 1)
            x = torch.rand(16, 5, generator=g).to(mesh.device_type)
            loss = F.mse_loss(model(x), x.amax(dim=1, keepdim=True)) / ACCUM
            loss.backward()
            total += loss.detach()
        norm = clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        opt.zero_grad()
        if step % 5 == 0:
            norm = as_plain(norm)  # a collective: every rank takes part
            if dist.get_rank() == 0:
                print(f"step {step}: loss on rank zero {total.item():.4f}, norm {norm.item():.3f}")


if __name__ == "__main__":
    world = int(os.environ["WORLD_SIZE"])
    kind = "cuda" if torch.cuda.is_available() and torch.cuda.device_count() >= world else "cpu"
    if kind == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    mesh = init_device_mesh(kind, (world,), mesh_dim_names=("shard",))
    torch.manual_seed(0)
    model = Sequential(Linear(5, 16), GELU(), Linear(16, 1)).to(kind)
    fully_shard(model, mesh=mesh)
    train(model, mesh, steps=11)
    dist.destroy_process_group()
