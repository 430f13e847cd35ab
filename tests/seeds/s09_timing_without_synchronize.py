"""S9: kernels run asynchronously: the clock is read before the GPU has done the work that is being timed."""

import time

import torch
import torch.nn as nn


def measure():
    model = nn.Linear(4096, 4096).cuda()
    x = torch.randn(512, 4096, device="cuda")
    start = time.perf_counter()
    model(x)
    elapsed = time.perf_counter() - start  # expect: DG603
    print(f"{elapsed:.4f} s")


def measure_rightly():
    model = nn.Linear(4096, 4096).cuda()
    x = torch.randn(512, 4096, device="cuda")
    torch.cuda.synchronize()
    start = time.perf_counter()
    model(x)
    torch.cuda.synchronize()
    print(f"{time.perf_counter() - start:.4f} s")
