"""S7: the prediction is on the GPU, the target was left on the CPU."""

import torch
import torch.nn as nn


def loss(model, x, target):
    prediction = model(x.cuda())
    return nn.functional.mse_loss(prediction, target)  # expect: DG205


if __name__ == "__main__":
    loss(nn.Linear(8, 1).cuda(), torch.randn(4, 8), torch.randn(4, 1)).backward()
