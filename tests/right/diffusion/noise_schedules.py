"""Linear, cosine and sigmoid noise schedules with SNR weights, and zero terminal SNR rescaling."""
import math
from typing import Callable, Dict

import torch
from torch import Tensor


def linear_bar(steps: int) -> Tensor:
    scale = 1000 / steps
    betas = torch.linspace(scale * 1e-4, min(scale * 0.02, 0.99), steps, dtype=torch.float64)
    return torch.cumprod(1 - betas, 0)


def cosine_bar(steps: int, s: float = 0.008) -> Tensor:
    t = torch.arange(1, steps + 1, dtype=torch.float64) / steps
    f = torch.cos((t + s) / (1 + s) * math.pi / 2).square()
    return (f / math.cos(s / (1 + s) * math.pi / 2) ** 2).clamp(1e-8, 1.0)


def sigmoid_bar(steps: int, start: float = -3.0, end: float = 3.0) -> Tensor:
    t = torch.arange(1, steps + 1, dtype=torch.float64) / steps
    lo, hi = torch.sigmoid(torch.tensor([start, end], dtype=torch.float64))
    bar = (hi - torch.sigmoid(t * (end - start) + start)) / (hi - lo)
    return bar.clamp(1e-8, 1.0)


def snr(bar: Tensor) -> Tensor:
    return bar / (1 - bar).clamp_min(1e-12)


def min_snr_weight(bar: Tensor, gamma: float = 5.0) -> Tensor:
    """Weight of the noise-prediction loss; SNR is positive unless it was rescaled to end at zero."""
    value = snr(bar)
    return value.clamp(max=gamma) / value.clamp_min(1e-12)


def zero_terminal_snr(bar: Tensor) -> Tensor:
    root = bar.sqrt()
    first, last = root[0].clone(), root[-1].clone()
    root = (root - last) * (first / (first - last))
    return root.square()


SCHEDULES: Dict[str, Callable[[int], Tensor]] = {"linear": linear_bar, "cosine": cosine_bar, "sigmoid": sigmoid_bar}


def main() -> None:
    for name, make in SCHEDULES.items():
        bar = make(100)
        assert bool((bar[1:] <= bar[:-1]).all()), "alpha bar must fall"
        rescaled = zero_terminal_snr(bar)
        log_snr = snr(bar).log10()
        weights = min_snr_weight(bar)
        print(
            f"{name:8s} log10 SNR {log_snr[0].item():6.2f} .. {log_snr[-1].item():6.2f}, "
            f"smallest weight {weights.min().item():.4f}, terminal {rescaled[-1].item():.1e}"
        )


if __name__ == "__main__":
    main()
