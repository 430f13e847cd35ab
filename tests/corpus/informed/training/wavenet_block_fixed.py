# target: WaveNet.forward
"""Dilated residual blocks for one-dimensional signals."""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, channels: int, dilation: int) -> None:
        super().__init__()
        self.activate = nn.ReLU()
        self.conv = nn.Conv1d(channels, channels, 3, padding=dilation, dilation=dilation)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.conv(self.activate(x))


class WaveNet(nn.Module):
    def __init__(self, channels: int = 8, depth: int = 3, classes: int = 5) -> None:
        super().__init__()
        self.stem = nn.Conv1d(1, channels, 7, padding=3)
        self.blocks = nn.Sequential(*(Block(channels, 2**index) for index in range(depth)))
        self.head = nn.Conv1d(channels, classes, 1)

    def forward(self, wave: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(self.stem(wave))).mean(dim=-1)


def main() -> None:
    torch.manual_seed(0)
    model = WaveNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    loss = nn.functional.cross_entropy(model(torch.randn(4, 1, 60)), torch.randint(0, 5, (4,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


if __name__ == "__main__":
    main()
