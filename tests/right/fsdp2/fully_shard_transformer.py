"""FSDP2: shard each block, then the root, over a one-dimensional device mesh."""
# launch: torchrun --standalone --nproc-per-node=2 {file}
import os

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        return x + self.mlp(self.norm(x))


class Model(nn.Module):
    def __init__(self, dim=16, depth=2):
        super().__init__()
        self.inp = nn.Linear(4, dim)
        self.blocks = nn.ModuleList(Block(dim) for _ in range(depth))
        self.out = nn.Linear(dim, 1)

    def forward(self, x):
        x = self.inp(x)
        for block in self.blocks:
            x = block(x)
        return self.out(x)


def main():
    world, local_rank = int(os.environ["WORLD_SIZE"]), int(os.environ["LOCAL_RANK"])
    kind = "cuda" if torch.cuda.is_available() and torch.cuda.device_count() >= world else "cpu"
    if kind == "cuda":
        torch.cuda.set_device(local_rank)
    mesh = init_device_mesh(kind, (world,), mesh_dim_names=("dp",))
    torch.manual_seed(0)
    model = Model().to(kind)
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    assert isinstance(model.inp.weight, DTensor)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-2)  # made after sharding
    gen = torch.Generator().manual_seed(dist.get_rank())
    for step in range(12):
        x = torch.randn(32, 4, generator=gen).to(kind)
        loss = nn.functional.mse_loss(model(x), x.sum(dim=1, keepdim=True))
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 4 == 0:
            mean = loss.detach().clone()
            dist.all_reduce(mean)
            if dist.get_rank() == 0:
                print(f"step {step}: {mean.item() / world:.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
