"""S1: a denominator that is zero for certain. No error is raised: values and gradients are Inf and NaN, silently."""

import torch


def normalise(scores):
    baseline = torch.rand_like(scores)
    spread = baseline - baseline
    return scores / spread  # expect: DG401


def main():
    scores = torch.randn(10, requires_grad=True)
    loss = normalise(scores).mean()
    loss.backward()
    print(scores.grad)


if __name__ == "__main__":
    main()
