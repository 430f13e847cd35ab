# target: MotionGate.process_clip
"""CCTV pre-filter: only clips with motion are sent on to the (expensive) detector."""
from dataclasses import dataclass
from typing import List, Tuple

import torch
import torch.nn.functional as F


@dataclass(frozen=True)
class GateConfig:
    pixel_threshold: int = 25     # grey levels
    min_fraction: float = 0.01    # share of moving pixels that opens the gate
    pool: int = 4                 # down-sampling of the motion map
    hold_frames: int = 5          # frames the gate stays open after motion


def to_gray(frames: torch.Tensor) -> torch.Tensor:
    """(T, 3, H, W) uint8 RGB -> (T, H, W) uint8 luma."""
    weights = torch.tensor([0.299, 0.587, 0.114], device=frames.device).view(1, 3, 1, 1)
    return (frames.float() * weights).sum(dim=1).round().clamp(0, 255).to(torch.uint8)


def frame_difference(gray: torch.Tensor) -> torch.Tensor:
    """Absolute change between neighbouring frames, (T, H, W) -> (T-1, H, W)."""
    gray = gray.to(torch.int16)
    return (gray[1:] - gray[:-1]).abs()


class MotionGate:
    def __init__(self, config: GateConfig = GateConfig()):
        self.config = config

    def motion_fraction(self, gray: torch.Tensor) -> torch.Tensor:
        moving = (frame_difference(gray) > self.config.pixel_threshold).float()
        # A block counts as moving when most of its pixels do: suppresses single noisy pixels.
        blocks = F.avg_pool2d(moving.unsqueeze(1), self.config.pool) > 0.5
        return blocks.float().mean(dim=(1, 2, 3))

    def segments(self, active: torch.Tensor) -> List[Tuple[int, int]]:
        """Half-open frame ranges in which the gate is open."""
        out: List[Tuple[int, int]] = []
        for t in torch.nonzero(active).flatten().tolist():
            start, end = t, min(t + 1 + self.config.hold_frames, len(active) + 1)
            if out and start <= out[-1][1]:
                out[-1] = (out[-1][0], end)
            else:
                out.append((start, end))
        return out

    def process_clip(self, frames: torch.Tensor) -> dict:
        """frames: (T, 3, H, W) uint8, as decoded."""
        if frames.dtype != torch.uint8 or frames.dim() != 4:
            raise ValueError(f"expected (T, 3, H, W) uint8, got {tuple(frames.shape)} {frames.dtype}")
        fraction = self.motion_fraction(to_gray(frames))
        active = fraction > self.config.min_fraction
        return {
            "max_fraction": fraction.max().item(),
            "segments": self.segments(active),
            "keep": bool(active.any()),
        }
