"""Anchor box coding for the detector."""
import math
from typing import Tuple

import torch

MAX_RATIO = math.log(1000.0 / 16)


def box_center_size(boxes: torch.Tensor) -> Tuple[torch.Tensor, ...]:
    """Corner boxes (N, 4) to centre x, centre y, width, height."""
    w = boxes[:, 2] - boxes[:, 0]
    h = boxes[:, 3] - boxes[:, 1]
    return boxes[:, 0] + 0.5 * w, boxes[:, 1] + 0.5 * h, w, h


def decode_boxes(anchors: torch.Tensor, deltas: torch.Tensor) -> torch.Tensor:
    """Apply regression deltas (dx, dy, dw, dh) to anchors.

    anchors: (N, 4) as x1, y1, x2, y2; deltas: (N, 4). Returns (N, 4) corner boxes.
    """
    cx, cy, w, h = box_center_size(anchors)
    px = cx + deltas[:, 0] * w
    py = cy + deltas[:, 0] * h
    pw = w * deltas[:, 2].clamp(max=MAX_RATIO).exp()
    ph = h * deltas[:, 3].clamp(max=MAX_RATIO).exp()
    return torch.stack([px - 0.5 * pw, py - 0.5 * ph, px + 0.5 * pw, py + 0.5 * ph], dim=1)


def encode_boxes(anchors: torch.Tensor, boxes: torch.Tensor) -> torch.Tensor:
    """Inverse of decode_boxes."""
    ax, ay, aw, ah = box_center_size(anchors)
    bx, by, bw, bh = box_center_size(boxes)
    return torch.stack([(bx - ax) / aw, (by - ay) / ah, (bw / aw).log(), (bh / ah).log()], dim=1)
