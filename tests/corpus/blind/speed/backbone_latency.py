# target: script
# truth: The clock is read without synchronising: on a GPU the call returns once the kernels are queued, so the printed
#   milliseconds are launch overhead and rank the blocks wrongly. No error.
"""Compare the inference latency of convolution blocks.

    python backbone_latency.py --size 64 --repeats 50
"""
import argparse
import statistics
import time

import torch
from torch import nn


def plain_block(channels):
    return nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU())


def separable_block(channels):
    return nn.Sequential(
        nn.Conv2d(channels, channels, 3, padding=1, groups=channels),
        nn.Conv2d(channels, channels, 1),
        nn.BatchNorm2d(channels),
        nn.ReLU(),
    )


def build(make_block, channels, depth):
    stem = nn.Conv2d(3, channels, 3, stride=2, padding=1)
    return nn.Sequential(stem, *(make_block(channels) for _ in range(depth)))


@torch.inference_mode()
def latencies(model, images, repeats, warmup=5):
    """Seconds of each forward pass."""
    for _ in range(warmup):
        model(images)
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        model(images)
        seconds.append(time.perf_counter() - start)  # error: DG603
    return seconds


def summary(seconds):
    ordered = sorted(seconds)
    return {
        "median_ms": 1e3 * statistics.median(ordered),
        "p95_ms": 1e3 * ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))],
    }


def main(argv=None):
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--channels", type=int, default=16)
    ap.add_argument("--depth", type=int, default=4)
    ap.add_argument("--size", type=int, default=32)
    ap.add_argument("--batch", type=int, default=4)
    ap.add_argument("--repeats", type=int, default=20)
    args = ap.parse_args(argv)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    images = torch.randn(args.batch, 3, args.size, args.size, device=device)
    for name, block in [("plain", plain_block), ("separable", separable_block)]:
        model = build(block, args.channels, args.depth).to(device).eval()
        result = summary(latencies(model, images, args.repeats))
        print(f"{name:>10s} median {result['median_ms']:.3f} ms  p95 {result['p95_ms']:.3f} ms")


if __name__ == "__main__":
    main()
