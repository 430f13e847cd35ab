"""Time a layer forward and backward with warm-up and synchronisation, and with torch.utils.benchmark."""
import statistics
import time

import torch
import torch.nn as nn
from torch.utils import benchmark

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def synchronize():
    if device.type == "cuda":
        torch.cuda.synchronize()


def time_callable(fn, warmup=3, repeats=10):
    for _ in range(warmup):
        fn()
    samples = []
    for _ in range(repeats):
        synchronize()
        t0 = time.perf_counter()
        fn()
        synchronize()
        samples.append(time.perf_counter() - t0)
    return statistics.median(samples)


def main():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(d_model=32, nhead=4, dim_feedforward=64, batch_first=True).to(device)
    x = torch.randn(4, 16, 32, device=device)

    def forward_only():
        with torch.inference_mode():
            return layer(x)

    def forward_backward():
        layer.zero_grad(set_to_none=True)
        layer(x).square().mean().backward()

    layer.eval()
    eval_time = time_callable(forward_only)
    layer.train()
    train_time = time_callable(forward_backward)
    print(f"forward {eval_time * 1e3:.3f} ms, forward and backward {train_time * 1e3:.3f} ms")

    timer = benchmark.Timer(
        stmt="x @ w", globals={"x": torch.randn(64, 64, device=device), "w": torch.randn(64, 64, device=device)}
    )
    measured = timer.timeit(50)
    print(f"64x64 matmul: median {measured.median * 1e6:.1f} us")


if __name__ == "__main__":
    main()
