"""Pairs of ranks form groups; new_group is a call of all ranks, for each group (pytorch #25390, #130102)."""

import os

import torch
import torch.distributed as dist


def pair_group(rank, world):
    groups = [dist.new_group([i, i + 1]) for i in range(0, world - 1, 2)]
    if rank == 0:
        return groups[0]
    return None


def average(tensor, group):
    if group is not None:
        dist.all_reduce(tensor, group=group)
        tensor /= 2
    return tensor


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    group = pair_group(rank, world)
    if rank == 1:
        group = dist.group.WORLD if world == 2 else group
    state = torch.full((4,), float(rank))
    dist.all_reduce(state)
    print(rank, state)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
