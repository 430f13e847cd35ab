# target: script
# gpu-memory: 1024MiB
"""Classification of point clouds with global self-attention."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class PointAttention(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.norm = nn.LayerNorm(width)

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.norm(points)).chunk(3, dim=-1)
        drop = 0.1 if self.training else 0.0
        mixed = F.scaled_dot_product_attention(q[:, None], k[:, None], v[:, None], dropout_p=drop)
        return points + mixed.squeeze(1)


class PointNet(nn.Module):
    def __init__(self, width: int = 16, classes: int = 10) -> None:
        super().__init__()
        self.lift = nn.Linear(3, width)
        self.blocks = nn.Sequential(PointAttention(width), PointAttention(width))
        self.head = nn.Linear(width, classes)

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(self.lift(points)).amax(dim=1))


def main() -> None:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = PointNet().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    points = torch.randn(1, 8192, 3, device=device)
    labels = torch.randint(0, 10, (1,), device=device)
    loss = F.cross_entropy(model(points), labels)
    loss.backward()
    optimizer.step()


if __name__ == "__main__":
    main()
