"""S2: an in-place write to a leaf that requires grad raises at once."""

import torch


def clipped(x):
    x.clamp_(min=1e-6)  # expect: DG102
    return torch.log(x)


if __name__ == "__main__":
    clipped(torch.rand(4, device="cuda", requires_grad=True)).sum().backward()
