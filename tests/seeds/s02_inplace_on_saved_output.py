"""S2: the clamp overwrites what exp has saved for its backward: RuntimeError in backward()."""

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


def main():
    model = Rate()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        loss = model(torch.randn(4, 8)).mean()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
