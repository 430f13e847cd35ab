# target: MotionDetector.update
"""Motion trigger for a wildlife camera: decides which frames to store."""
from collections import deque
from typing import Optional

import torch
import torch.nn.functional as F


def to_grey(frame: torch.Tensor) -> torch.Tensor:
    """(3, H, W) uint8 colour frame to (H, W) uint8 luminance."""
    weights = torch.tensor([0.299, 0.587, 0.114]).view(3, 1, 1)
    return (frame * weights).sum(0).round().clamp(0, 255).to(torch.uint8)


class MotionDetector:
    """Compares each frame with the one before.

    Args:
        pixel_threshold: grey-level difference that counts as a changed pixel.
        area_threshold: share of changed pixels that triggers.
        cooldown: frames to keep recording after the last trigger.
    """

    def __init__(self, pixel_threshold: int = 25, area_threshold: float = 0.02, cooldown: int = 5):
        self.pixel_threshold = pixel_threshold
        self.area_threshold = area_threshold
        self.cooldown = cooldown
        self.previous: Optional[torch.Tensor] = None
        self.remaining = 0
        self.history = deque(maxlen=100)

    def difference(self, current: torch.Tensor) -> torch.Tensor:
        return (current.int() - self.previous.int()).abs()

    def changed_area(self, diff: torch.Tensor) -> float:
        mask = (diff > self.pixel_threshold).float()[None, None]
        smooth = F.avg_pool2d(mask, 3, stride=1, padding=1)
        return (smooth > 0.5).float().mean().item()

    def update(self, frame: torch.Tensor) -> bool:
        """Feed one (3, H, W) uint8 frame; True when it should be stored."""
        grey = to_grey(frame)
        area = 0.0
        if self.previous is not None:
            area = self.changed_area(self.difference(grey))
        self.previous = grey
        self.history.append(area)
        if area > self.area_threshold:
            self.remaining = self.cooldown
        elif self.remaining > 0:
            self.remaining -= 1
        return self.remaining > 0


def noisy_scene(n_frames: int, height: int = 60, width: int = 80):
    base = torch.randint(80, 170, (1, height, width)).expand(3, -1, -1)
    for _ in range(n_frames):
        noise = torch.randint(-2, 3, (1, height, width))
        yield (base + noise).to(torch.uint8)


if __name__ == "__main__":
    detector = MotionDetector()
    print(sum(detector.update(frame) for frame in noisy_scene(30)), "frames stored")
