# target: forward_with_fallback
# truth: The retry stands inside the except block: the exception's traceback still holds the failed attempt's tensors,
#   so that the retry has no more memory than the first attempt.
"""Feature extraction that falls back to smaller pieces when a batch does not fit."""

import torch
from torch import nn


class Backbone(nn.Module):
    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, width, 3), nn.ReLU(), nn.Conv2d(width, width, 3), nn.ReLU())

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.layers(images).mean(dim=(2, 3))


def in_pieces(model: nn.Module, images: torch.Tensor, pieces: int) -> torch.Tensor:
    return torch.cat([model(piece) for piece in images.chunk(pieces)])


def forward_with_fallback(model: nn.Module, images: torch.Tensor, pieces: int = 4) -> torch.Tensor:
    try:
        return model(images)
    except torch.OutOfMemoryError:
        torch.cuda.empty_cache()
        return in_pieces(model, images, pieces)  # error: DG711


@torch.no_grad()
def extract(model: nn.Module, loader, device: torch.device) -> torch.Tensor:
    model.eval()
    return torch.cat([forward_with_fallback(model, images.to(device)).cpu() for images in loader])


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    features = extract(Backbone().to(device), [torch.rand(8, 3, 24, 24) for _ in range(2)], device)
    print(features.shape)
