"""A broadcast in a group names its source by the rank within the group (torchrec #4601)."""

import os

import torch
import torch.distributed as dist


def share(value, group, ranks):
    tensor = torch.tensor([value])
    dist.broadcast(tensor, src=0, group=group)
    return tensor.item()


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    half = world // 2
    halves = [list(range(half)), list(range(half, world))]
    groups = [dist.new_group(ranks) for ranks in halves]
    mine = 0 if rank < half else 1
    value = share(float(rank), groups[mine], halves[mine])
    print(rank, value)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
