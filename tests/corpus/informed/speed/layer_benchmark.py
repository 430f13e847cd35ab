# target: script
# truth: The clock is read before the GPU has done its work: what is measured is the launching of kernels, not their
#   duration.
"""Compares the time of two normalisations."""

import time

import torch
import torch.nn as nn


def candidates(width, device):
    yield "layer", nn.LayerNorm(width).to(device)
    yield "rms", nn.RMSNorm(width).to(device)


@torch.no_grad()
def measure(module, x, repeats=20):
    for _ in range(3):
        module(x)
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(repeats):
        module(x)
    return (time.perf_counter() - began) / repeats  # error: DG603


def main():
    if not torch.cuda.is_available():
        print("nothing to measure without a GPU")
        return
    device = torch.device("cuda")
    x = torch.randn(32, 64, 128, device=device)
    for name, module in candidates(128, device):
        print(f"{name}: {1e6 * measure(module, x):.1f} us")


if __name__ == "__main__":
    main()
