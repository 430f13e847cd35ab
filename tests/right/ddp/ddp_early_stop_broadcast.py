"""All ranks stop together: rank zero decides on the validation loss and broadcasts its decision."""
# launch: torchrun --standalone --nproc-per-node=2 {file}
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

PATIENCE = 2


def toy(seed, n):
    g = torch.Generator().manual_seed(seed)
    x = torch.rand(n, 3, generator=g)
    return TensorDataset(x, x.mean(dim=1, keepdim=True))


@torch.no_grad()
def validation_loss(model, data, device):
    """Runs on rank zero alone, hence on the bare module without any collective."""
    model.eval()
    x, y = (t.to(device) for t in data.tensors)
    value = nn.functional.mse_loss(model(x), y).item()
    model.train()
    return value


def run(device, rank):
    torch.manual_seed(1)
    model = DDP(nn.Linear(3, 1).to(device))
    train, val = toy(0, 128), toy(1, 64)
    sampler = DistributedSampler(train)
    loader = DataLoader(train, batch_size=16, sampler=sampler)
    opt = torch.optim.SGD(model.parameters(), lr=0.3)
    best, bad = float("inf"), 0
    for epoch in range(12):
        sampler.set_epoch(epoch)
        for x, y in loader:
            opt.zero_grad()
            nn.functional.mse_loss(model(x.to(device)), y.to(device)).backward()
            opt.step()
        stop = torch.zeros(1, dtype=torch.int32, device=device)
        if rank == 0:
            value = validation_loss(model.module, val, device)
            best, bad = (value, 0) if value < best - 1e-4 else (best, bad + 1)
            stop.fill_(int(bad >= PATIENCE))
        dist.broadcast(stop, src=0)
        if stop.item():
            break
    if rank == 0:
        print(f"stopped in epoch {epoch}, best validation loss {best:.5f}")


if __name__ == "__main__":
    dist.init_process_group("gloo")
    try:
        run(torch.device("cpu"), dist.get_rank())
    finally:
        dist.destroy_process_group()
