"""S6: what the loss of (N, 1) against (N) does silently: it broadcasts to (N, N)."""

import torch
import torch.nn.functional as F


def loss(prediction, target):
    return F.mse_loss(prediction, target)


if __name__ == "__main__":
    loss(torch.randn(10, 1, device="cuda", requires_grad=True), torch.randn(10, device="cuda")).backward()  # expect: DG303
