"""DTensor by hand: shard, replicate, multiply and gather, compared with plain tensors."""
# launch: torchrun --standalone --nproc-per-node=2 {file}
import os

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor


def column_then_row(x, w1, w2, mesh):
    """x @ w1 @ w2 with w1 split by columns and w2 by rows; the result is a partial sum until replicated."""
    a = distribute_tensor(x, mesh, [Replicate()])
    b = distribute_tensor(w1, mesh, [Shard(1)])
    c = distribute_tensor(w2, mesh, [Shard(0)])
    return (a @ b @ c).redistribute(placements=[Replicate()])


def main():
    world = int(os.environ["WORLD_SIZE"])
    mesh = init_device_mesh("cpu", (world,))
    torch.manual_seed(0)  # all ranks hold the same full tensors
    x, w1, w2 = torch.randn(3, 4), torch.randn(4, 6), torch.randn(6, 2)

    out = column_then_row(x, w1, w2, mesh)
    assert isinstance(out, DTensor)
    torch.testing.assert_close(out.to_local(), x @ w1 @ w2)

    rows = distribute_tensor(torch.arange(8.0).view(4, 2), mesh, [Shard(0)])
    local = rows.to_local()
    again = DTensor.from_local(local * 2, mesh, [Shard(0)])
    full = again.full_tensor()
    torch.testing.assert_close(full, torch.arange(8.0).view(4, 2) * 2)

    mean = rows.mean().full_tensor()
    if dist.get_rank() == 0:
        print(f"local rows {tuple(local.shape)} of {tuple(rows.shape)}, mean {mean.item():.2f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
