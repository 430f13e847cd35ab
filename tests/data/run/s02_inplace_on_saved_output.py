"""S2: the clamp overwrites what sigmoid has saved: the static finding is confirmed, with both lines."""

import torch
import torch.nn as nn


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.score = nn.Linear(6, 2)

    def forward(self, seen):
        opened = torch.sigmoid(self.score(seen))
        opened.clamp_(min=0.1)  # expect: DG101
        return opened


if __name__ == "__main__":
    gate = Gate().cuda()
    gate(torch.randn(3, 6, device="cuda")).sum().backward()
