"""S5: BCEWithLogitsLoss takes input and target of one shape."""

import torch
import torch.nn as nn


def loss(model, x, target):
    logits = model(x)
    return nn.BCEWithLogitsLoss()(logits, target)  # expect: DG301


if __name__ == "__main__":
    model = nn.Linear(8, 1).cuda()
    loss(model, torch.randn(10, 8).cuda(), torch.rand(10).cuda()).backward()
