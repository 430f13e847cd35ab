"""S2: a leaf that requires grad is overwritten outside no_grad: RuntimeError at once."""

import torch


def main():
    weight = torch.randn(10, requires_grad=True)
    weight.clamp_(min=1e-6)  # expect: DG102 error
    loss = weight.log().mean()
    loss.backward()


if __name__ == "__main__":
    main()
