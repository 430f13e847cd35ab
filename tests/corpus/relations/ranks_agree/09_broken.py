"""Pairs of ranks form groups; new_group is a call of all ranks, for each group (pytorch #25390, #130102)."""

import os

import torch
import torch.distributed as dist


def pair_group(rank, world):
    if rank == 0:
        return dist.new_group([0, 1])
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
    state = torch.full((4,), float(rank))
    dist.all_reduce(state)
    print(rank, state)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
