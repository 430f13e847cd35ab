"""Full state dict of a sharded model by get_model_state_dict, and the way back into a fresh sharded model."""
# launch: torchrun --standalone --nproc-per-node=2 {file}
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, set_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


def build(mesh, seed):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 2)).to(mesh.device_type)
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def a_few_steps(model, device, n=4):
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(n):
        x = torch.randn(16, 6, device=device)
        loss = nn.functional.cross_entropy(model(x), (x[:, 0] > 0).long())
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()


def main():
    world = int(os.environ["WORLD_SIZE"])
    on_gpu = torch.cuda.is_available() and torch.cuda.device_count() >= world
    if on_gpu:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    mesh = init_device_mesh("cuda" if on_gpu else "cpu", (world,))
    device = torch.device(mesh.device_type)
    rank = dist.get_rank()

    trained = build(mesh, seed=0)
    torch.manual_seed(10 + rank)
    a_few_steps(trained, device)
    full = get_model_state_dict(trained, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    if rank == 0:
        print("keys on rank zero:", sorted(full))

    fresh = build(mesh, seed=1)
    set_model_state_dict(fresh, full, options=StateDictOptions(full_state_dict=True, broadcast_from_rank0=True))
    probe = torch.ones(2, 6, device=device)
    with torch.no_grad():
        torch.testing.assert_close(fresh(probe), trained(probe))
    dist.barrier()
    if rank == 0:
        print("outputs agree")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
