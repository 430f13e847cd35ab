"""S1: nothing raises; the values become NaN at the division and the gradients with them."""

import torch


def ratio(x, y):
    difference = y - y
    return x / difference  # expect: DG401


if __name__ == "__main__":
    x = torch.randn(4, device="cuda", requires_grad=True)
    y = torch.randn(4, device="cuda")
    ratio(x, y).sum().backward()
