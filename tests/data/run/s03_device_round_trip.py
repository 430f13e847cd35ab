"""S3: the round trip through the CPU costs two copies, and breaks nothing."""

import torch


def average(x):
    return x.cpu().mean().cuda()  # expect: DG206 info


if __name__ == "__main__":
    average(torch.randn(8, device="cuda", requires_grad=True)).backward()
