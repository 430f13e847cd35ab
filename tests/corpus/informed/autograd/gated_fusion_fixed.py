# target: GatedFusion.forward
"""Fusion of an image and a text embedding by a learned gate."""

import torch
from torch import nn


class Projection(nn.Module):
    def __init__(self, size: int, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(size)
        self.linear = nn.Linear(size, width)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return self.linear(self.norm(features))


class GatedFusion(nn.Module):
    """Mixes two modalities; the gate never closes entirely, so that both keep learning."""

    def __init__(self, image_size: int = 64, text_size: int = 48, width: int = 32, floor: float = 0.05) -> None:
        super().__init__()
        self.image = Projection(image_size, width)
        self.text = Projection(text_size, width)
        self.gate = nn.Linear(2 * width, width)
        self.floor = floor

    def forward(self, image: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        image = self.image(image)
        text = self.text(text)
        gate = torch.sigmoid(self.gate(torch.cat([image, text], dim=-1)))
        gate = gate + self.floor
        return gate * image + (1 - gate) * text


def contrastive_step(model: GatedFusion, images: torch.Tensor, texts: torch.Tensor) -> torch.Tensor:
    fused = nn.functional.normalize(model(images, texts), dim=-1)
    logits = fused @ fused.t() / 0.07
    return nn.functional.cross_entropy(logits, torch.arange(len(images)))


if __name__ == "__main__":
    torch.manual_seed(0)
    model = GatedFusion()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(3):
        optimizer.zero_grad()
        loss = contrastive_step(model, torch.randn(8, 64), torch.randn(8, 48))
        loss.backward()
        optimizer.step()
