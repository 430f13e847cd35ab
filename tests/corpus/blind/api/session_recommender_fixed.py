# target: recommend
"""Session-based next-item recommendation with a causal convolution."""
from typing import List

import torch
import torch.nn as nn
import torch.nn.functional as F


class CausalBlock(nn.Module):
    def __init__(self, dim: int, dilation: int):
        super().__init__()
        self.pad = 2 * dilation
        self.conv = nn.Conv1d(dim, dim, kernel_size=3, dilation=dilation)
        self.norm = nn.LayerNorm(dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.pad(x.transpose(1, 2), (self.pad, 0))
        y = F.relu(self.conv(y)).transpose(1, 2)
        return self.norm(x + y)


class SessionNet(nn.Module):
    """Scores all items given the items clicked so far (0 is padding, on the left)."""

    def __init__(self, n_items: int = 300, dim: int = 32, dropout: float = 0.25):
        super().__init__()
        self.items = nn.Embedding(n_items + 1, dim, padding_idx=0)
        self.blocks = nn.ModuleList([CausalBlock(dim, d) for d in (1, 2, 4)])
        self.dropout = dropout

    def forward(self, clicks: torch.Tensor) -> torch.Tensor:
        x = F.dropout(self.items(clicks), p=self.dropout, training=self.training)
        for block in self.blocks:
            x = block(x)
        return x[:, -1] @ self.items.weight[1:].t()

    def training_step(self, clicks: torch.Tensor, next_item: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(self(clicks), next_item - 1)


def left_pad(session: List[int], length: int = 20) -> List[int]:
    recent = session[-length:]
    return [0] * (length - len(recent)) + recent


@torch.no_grad()
def recommend(model: SessionNet, sessions: List[List[int]], k: int = 10) -> List[List[int]]:
    """Top-k item ids per session, without items already seen in it."""
    model.eval()
    scores = model(torch.tensor([left_pad(s) for s in sessions]))
    for row, session in zip(scores, sessions):
        row[torch.tensor(session) - 1] = float("-inf")
    return (scores.topk(k, dim=1).indices + 1).tolist()


if __name__ == "__main__":
    torch.manual_seed(0)
    net = SessionNet()
    print(recommend(net, [[4, 8, 15, 16, 23, 42], [7, 7, 120]]))
