# target: script
# truth: grid[...] += weight with an index that repeats keeps only one of the events of a cell (no accumulation); silent, the voxel grid holds far fewer events than came in.
"""Turn a stream of camera events into a voxel grid and report the activity per bin."""
import argparse

import torch


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--events", type=int, default=20000)
    parser.add_argument("--height", type=int, default=32)
    parser.add_argument("--width", type=int, default=40)
    parser.add_argument("--bins", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args([])


def synthetic_events(n, height, width, seed):
    g = torch.Generator().manual_seed(seed)
    t = torch.rand(n, generator=g).sort().values
    cx = width * (0.2 + 0.6 * t)
    x = (cx + 2.0 * torch.randn(n, generator=g)).round().clamp(0, width - 1)
    y = (height / 2 + 4.0 * torch.randn(n, generator=g)).round().clamp(0, height - 1)
    polarity = torch.randint(0, 2, (n,), generator=g)
    return torch.stack([t, x, y, polarity.float()], dim=1)


class VoxelGrid:
    def __init__(self, bins, height, width):
        self.shape = (2, bins, height, width)
        self.bins = bins

    def deposit(self, grid, index, weight):
        pol, tbin, row, col = index
        grid[pol, tbin, row, col] += weight  # fault: no rule

    def build(self, events):
        grid = torch.zeros(self.shape)
        t = events[:, 0]
        span = (t[-1] - t[0]).clamp_min(1e-9)
        position = (t - t[0]) / span * (self.bins - 1)
        left = position.floor().long().clamp(max=self.bins - 1)
        right = (left + 1).clamp(max=self.bins - 1)
        share = position - left
        col, row, pol = (events[:, i].long() for i in (1, 2, 3))
        self.deposit(grid, (pol, left, row, col), 1 - share)
        self.deposit(grid, (pol, right, row, col), share)
        return grid


args = parse_args()
events = synthetic_events(args.events, args.height, args.width, args.seed)
grid = VoxelGrid(args.bins, args.height, args.width).build(events)

print(f"events in: {len(events)}, mass in grid: {grid.sum().item():.1f}")
for b in range(args.bins):
    on, off = grid[1, b].sum().item(), grid[0, b].sum().item()
    peak = grid[:, b].sum(0).argmax().item()
    print(f"bin {b}: on {on:8.1f} off {off:8.1f} peak at {divmod(peak, args.width)}")
