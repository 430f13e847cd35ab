# target: MotionDetector.process
# truth: The frames are uint8, so their difference wraps around (10 - 12 = 254): no error, but tiny negative changes count as
#   large motion and a still but noisy scene is reported as moving.
"""Frame-difference motion detection in front of an action-recognition model."""
from __future__ import annotations

from collections import deque

import torch
import torch.nn.functional as F


class MotionDetector:
    """Keeps the previous frame and reports which tiles of the picture have moved.

    Frames are (3, H, W) uint8 tensors as they come from the video decoder.
    """

    def __init__(self, tile: int = 16, threshold: float = 12.0, smooth: int = 3):
        self.tile = tile
        self.threshold = threshold
        self.previous: torch.Tensor | None = None
        self.history: deque[float] = deque(maxlen=smooth)

    def reset(self) -> None:
        self.previous = None
        self.history.clear()

    def _difference(self, frame: torch.Tensor, previous: torch.Tensor) -> torch.Tensor:
        diff = (frame - previous).abs()  # error: DG413
        return diff.float().mean(dim=0)

    def process(self, frame: torch.Tensor) -> dict:
        if self.previous is None:
            self.previous = frame.clone()
            return {"moving": False, "fraction": 0.0, "tiles": None}

        diff = self._difference(frame, self.previous)
        tiles = F.avg_pool2d(diff[None, None], self.tile)[0, 0]
        active = tiles > self.threshold
        self.history.append(active.float().mean().item())
        self.previous = frame.clone()

        fraction = sum(self.history) / len(self.history)
        return {"moving": fraction > 0.05, "fraction": fraction, "tiles": active}


def camera(n_frames: int, noise: int = 2, height: int = 96, width: int = 128, seed: int = 0):
    """A still scene with sensor noise."""
    rng = torch.Generator().manual_seed(seed)
    scene = torch.randint(40, 200, (3, height, width), generator=rng)
    for _ in range(n_frames):
        jitter = torch.randint(-noise, noise + 1, scene.shape, generator=rng)
        yield (scene + jitter).to(torch.uint8)


def main() -> None:
    detector = MotionDetector()
    for i, frame in enumerate(camera(6)):
        result = detector.process(frame)
        print(i, result["moving"], f"{result['fraction']:.2f}")


if __name__ == "__main__":
    main()
