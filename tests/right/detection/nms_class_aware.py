"""Greedy non-maximum suppression, class-aware by offsets, with empty inputs handled."""
from typing import List, Tuple

import torch
from torch import Tensor


def iou_matrix(boxes: Tensor) -> Tensor:
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    lt = torch.maximum(boxes[:, None, :2], boxes[None, :, :2])
    rb = torch.minimum(boxes[:, None, 2:], boxes[None, :, 2:])
    inter = (rb - lt).clamp_min(0).prod(-1)
    return inter / (area[:, None] + area[None, :] - inter).clamp_min(1e-9)


def nms(boxes: Tensor, scores: Tensor, threshold: float) -> Tensor:
    """Indices kept, best first."""
    if boxes.numel() == 0:
        return torch.empty(0, dtype=torch.long, device=boxes.device)
    order = scores.argsort(descending=True)
    overlap = (iou_matrix(boxes[order]) > threshold).cpu()  # one copy, then a loop on the host
    suppressed = torch.zeros(order.numel(), dtype=torch.bool)
    keep: List[int] = []
    for i in range(order.numel()):
        if suppressed[i]:
            continue
        keep.append(i)
        suppressed |= overlap[i]
    return order[torch.tensor(keep, device=order.device)]


def batched_nms(boxes: Tensor, scores: Tensor, classes: Tensor, threshold: float) -> Tensor:
    if boxes.numel() == 0:
        return torch.empty(0, dtype=torch.long, device=boxes.device)
    span = boxes.max() - boxes.min() + 1
    return nms(boxes + (classes.to(boxes.dtype) * span).unsqueeze(1), scores, threshold)


def postprocess(boxes: Tensor, class_logits: Tensor, min_score: float = 0.3) -> Tuple[Tensor, Tensor, Tensor]:
    scores, classes = class_logits.sigmoid().max(dim=1)
    good = scores >= min_score
    boxes, scores, classes = boxes[good], scores[good], classes[good]
    keep = batched_nms(boxes, scores, classes, 0.5)
    return boxes[keep], scores[keep], classes[keep]


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    g = torch.Generator().manual_seed(3)
    true = torch.tensor([[10.0, 10.0, 30.0, 30.0], [50.0, 50.0, 90.0, 80.0]])
    noisy = (true.repeat(6, 1) + torch.randn(12, 4, generator=g)).to(device)
    logits = torch.full((12, 3), -3.0)
    logits[0::2, 0], logits[1::2, 2] = 2.0, 1.0
    logits = (logits + 0.1 * torch.randn(12, 3, generator=g)).to(device)
    with torch.inference_mode():
        boxes, scores, classes = postprocess(noisy, logits)
        none = postprocess(noisy, torch.full_like(logits, -9.0))
    print("kept classes", classes.tolist(), "scores", [round(s, 2) for s in scores.tolist()])
    assert classes.tolist() == [0, 2] and none[0].shape == (0, 4)
