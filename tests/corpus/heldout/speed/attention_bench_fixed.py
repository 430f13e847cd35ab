# target: script
"""Compare attention variants: naive softmax attention against the fused kernel.

    python attention_bench.py --seq 1024 2048 --heads 8
"""
import argparse
import math
import time

import torch
import torch.nn.functional as F


def naive_attention(q, k, v):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    return scores.softmax(dim=-1) @ v


def fused_attention(q, k, v):
    return F.scaled_dot_product_attention(q, k, v)


VARIANTS = {"naive": naive_attention, "fused": fused_attention}


def make_inputs(batch, heads, seq, dim, device, dtype):
    shape = (batch, heads, seq, dim)
    return tuple(torch.randn(shape, device=device, dtype=dtype) for _ in range(3))


def wait_for(device):
    if device.type == "cuda":
        torch.cuda.synchronize(device)


@torch.no_grad()
def mean_ms(fn, inputs, device, iters=50, warmup=10):
    """Mean milliseconds per call of fn(*inputs)."""
    for _ in range(warmup):
        fn(*inputs)
    wait_for(device)
    start = time.perf_counter()
    for _ in range(iters):
        fn(*inputs)
    wait_for(device)
    elapsed = time.perf_counter() - start
    return 1e3 * elapsed / iters


def max_difference(inputs):
    with torch.no_grad():
        a, b = (VARIANTS[name](*inputs) for name in ("naive", "fused"))
    return (a - b).abs().max().item()


def compare(seq_lengths, batch, heads, dim, device, dtype):
    rows = []
    for seq in seq_lengths:
        inputs = make_inputs(batch, heads, seq, dim, device, dtype)
        times = {name: mean_ms(fn, inputs, device) for name, fn in VARIANTS.items()}
        flops = 4 * batch * heads * seq * seq * dim
        tflops = {name: flops / (ms * 1e-3) / 1e12 for name, ms in times.items()}
        rows.append((seq, times, tflops, max_difference(inputs)))
    return rows


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seq", type=int, nargs="+", default=[32, 64])
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--heads", type=int, default=2)
    parser.add_argument("--dim", type=int, default=32)
    args = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    dtype = torch.float16 if device.type == "cuda" else torch.float32
    for seq, times, tflops, diff in compare(args.seq, args.batch, args.heads, args.dim, device, dtype):
        cols = "  ".join(f"{n}: {times[n]:.3f} ms ({tflops[n]:.2f} TFLOP/s)" for n in times)
        print(f"seq {seq:6d}  {cols}  max diff {diff:.1e}")


if __name__ == "__main__":
    main()
