"""Accumulation under DDP: no_sync for all but the last micro batch of a group, and an equal share for each."""
# launch: torchrun --standalone --nproc-per-node=2 {file}
import os
from contextlib import nullcontext

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel


class Env:
    def __init__(self):
        self.rank = int(os.environ.get("RANK", 0))
        self.world = int(os.environ.get("WORLD_SIZE", 1))
        self.local_rank = int(os.environ.get("LOCAL_RANK", 0))
        on_gpu = torch.cuda.is_available() and self.local_rank < torch.cuda.device_count() and self.world <= torch.cuda.device_count()
        self.device = torch.device("cuda", self.local_rank) if on_gpu else torch.device("cpu")
        self.backend = "nccl" if on_gpu else "gloo"

    def log(self, *args):
        if self.rank == 0:
            print(*args, flush=True)


def micro_batches(generator, steps, accum, device):
    for _ in range(steps):
        group = []
        for _ in range(accum):
            x = torch.randn(16, 6, generator=generator)
            group.append((x.to(device), x.prod(dim=1).to(device)))
        yield group


def main(env: Env, accum: int = 3):
    if env.device.type == "cuda":
        torch.cuda.set_device(env.device)
    dist.init_process_group(env.backend)
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(6, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1)).to(env.device)
    ddp = DistributedDataParallel(net, device_ids=[env.local_rank] if env.backend == "nccl" else None)
    opt = torch.optim.Adam(ddp.parameters(), lr=1e-2)
    g = torch.Generator().manual_seed(100 + env.rank)  # every rank draws data of its own
    for step, group in enumerate(micro_batches(g, 12, accum, env.device)):
        total = torch.zeros((), device=env.device)
        for i, (x, y) in enumerate(group):
            last = i == len(group) - 1
            with nullcontext() if last else ddp.no_sync():
                loss = F.mse_loss(ddp(x).squeeze(1), y) / len(group)
                loss.backward()
            total += loss.detach()
        opt.step()
        opt.zero_grad(set_to_none=True)
        if step % 4 == 0:
            dist.all_reduce(total)
            env.log(f"step {step}: {total.item() / env.world:.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Env())
