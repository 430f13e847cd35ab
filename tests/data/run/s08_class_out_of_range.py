"""S8: "memory access violation" is a label outside the classes; the kernel would assert, and poison the context."""

import torch
import torch.nn as nn


def loss(model, x, labels):
    return nn.functional.cross_entropy(model(x), labels)  # expect: DG302


if __name__ == "__main__":
    labels = torch.tensor([0, 3, 5, 1]).cuda()
    loss(nn.Linear(8, 5).cuda(), torch.randn(4, 8).cuda(), labels).backward()
