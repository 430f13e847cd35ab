"""torch.compile and a process group of one, on any device."""

import torch
from torch import nn
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

device = "cuda" if torch.cuda.is_available() else "cpu"


@torch.compile
def gelu(x):
    return 0.5 * x * (1 + torch.erf(x / 1.41421356))


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 16), nn.Linear(16, 2)

    def forward(self, x):
        return self.b(gelu(self.a(x)))


def compiled():
    raw = MLP().to(device)
    model = torch.compile(raw, mode="reduce-overhead")
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=(device == "cuda"))
    for _ in range(3):
        loss = nn.functional.cross_entropy(model(torch.randn(4, 8, device=device)), torch.randint(2, (4,), device=device))
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
    state = model._orig_mod.state_dict()
    state = {k.removeprefix("_orig_mod."): v for k, v in model.state_dict().items()}
    MLP().load_state_dict(state)


def ddp():
    dist.init_process_group("nccl" if device == "cuda" else "gloo", init_method="tcp://127.0.0.1:29511", rank=0, world_size=1)
    model = DDP(MLP().to(device), device_ids=[0] if device == "cuda" else None)
    data = TensorDataset(torch.randn(16, 8), torch.randint(2, (16,)))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=4, sampler=sampler)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for i, (x, y) in enumerate(loader):
            x, y = x.to(device), y.to(device)
            if i % 2 == 0:
                with model.no_sync():
                    (nn.functional.cross_entropy(model(x), y) / 2).backward()
                continue
            loss = nn.functional.cross_entropy(model(x), y) / 2
            loss.backward()
            opt.step()
            opt.zero_grad()
            total = loss.detach().clone()
            dist.all_reduce(total, op=dist.ReduceOp.SUM)
            if dist.get_rank() == 0:
                print(total.item())
    dist.barrier()
    torch.save(model.module.state_dict(), "ddp.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    compiled()
    ddp()
