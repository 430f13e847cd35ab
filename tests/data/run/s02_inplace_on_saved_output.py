"""S2: the clamp overwrites what exp has saved: the static finding is confirmed, with both lines."""

import torch
import torch.nn as nn


class Rate(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 1)

    def forward(self, x):
        rate = self.linear(x).exp()
        rate.clamp_(max=100.0)  # expect: DG101
        return rate


if __name__ == "__main__":
    model = Rate().cuda()
    model(torch.randn(4, 8, device="cuda")).mean().backward()
