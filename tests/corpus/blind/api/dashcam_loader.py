# target: preprocess
# truth: The (B, H, W, 3) frames are reinterpreted with view() instead of permuted to (B, 3, H, W), so pixels and colours are scrambled although the shape is right; the model gets meaningless images without an error.
"""Traffic-light state detection on decoded dashcam frames."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

MEAN = torch.tensor([0.485, 0.456, 0.406]).view(1, 3, 1, 1)
STD = torch.tensor([0.229, 0.224, 0.225]).view(1, 3, 1, 1)
STATES = ("off", "red", "amber", "green")


def preprocess(frames: np.ndarray, size: int = 64) -> torch.Tensor:
    """uint8 frames (B, H, W, 3) from the decoder to a normalised (B, 3, size, size) batch."""
    if frames.ndim != 4 or frames.shape[-1] != 3:
        raise ValueError(f"expected frames of shape (B, H, W, 3), got {frames.shape}")
    batch, height, width, channels = frames.shape
    x = torch.from_numpy(np.ascontiguousarray(frames))
    x = x.view(batch, channels, height, width).float() / 255.0  # error: DG318
    x = F.interpolate(x, size=(size, size), mode="bilinear", align_corners=False)
    return (x - MEAN) / STD


class LightNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, 16, 5, stride=2, padding=2), nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU(),
            nn.AdaptiveMaxPool2d(2), nn.Flatten(), nn.Linear(128, len(STATES)),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x)


class LightTracker:
    """Smooths the per-frame probabilities over time."""

    def __init__(self, model: LightNet, momentum: float = 0.8):
        self.model = model.eval()
        self.momentum = momentum
        self.probs = torch.full((len(STATES),), 1.0 / len(STATES))

    @torch.no_grad()
    def feed(self, frames: np.ndarray) -> str:
        for probs in self.model(preprocess(frames)).softmax(dim=1):
            self.probs = self.momentum * self.probs + (1 - self.momentum) * probs
        return STATES[int(self.probs.argmax())]


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    video = rng.integers(0, 256, size=(8, 90, 160, 3), dtype=np.uint8)
    print(LightTracker(LightNet()).feed(video))
