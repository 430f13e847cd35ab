"""Predictions are gathered for a metric; ranks have different numbers of them (pytorch #70037, Lightning #7773)."""

import torch
import torch.distributed as dist
from torch import nn


def score_boxes(model, images, threshold):
    scores = model(images).sigmoid().flatten()
    return scores[scores > threshold]


def pad_to(x, length):
    return torch.cat([x, x.new_zeros(length - len(x))])


def gather(x):
    world = dist.get_world_size()
    parts = [torch.empty_like(x) for _ in range(world)]
    dist.all_gather(parts, x)
    return torch.cat(parts)


def evaluate(model, batches):
    seen = []
    with torch.no_grad():
        for images in batches:
            seen.append(score_boxes(model, images, 0.5))
    mine = torch.cat(seen)
    return gather(mine).mean()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = nn.Linear(20, 6)
    generator = torch.Generator().manual_seed(100 + rank)
    batches = [torch.randn(8, 20, generator=generator) for _ in range(3)]
    result = evaluate(model, batches)
    if rank == 0:
        print("mean score", result.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
