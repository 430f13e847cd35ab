"""A pyramid of anchors, their assignment to ground truth by IoU, and the encoding of offsets."""
import math

import torch
from torch import nn


class AnchorGrid(nn.Module):
    """Anchors of every level as buffers of the module, so that `.to` moves them."""

    def __init__(self, image=64, strides=(8, 16), sizes=(12.0, 28.0), ratios=(0.5, 1.0, 2.0)):
        super().__init__()
        self.levels = len(strides)
        for i, (stride, size) in enumerate(zip(strides, sizes)):
            centers = (torch.arange(image // stride) + 0.5) * stride
            cy, cx = torch.meshgrid(centers, centers, indexing="ij")
            shapes = torch.tensor([[size / math.sqrt(r), size * math.sqrt(r)] for r in ratios])
            xy = torch.stack([cx, cy], dim=-1).reshape(-1, 1, 2).expand(-1, len(ratios), -1)
            half = shapes.expand(xy.size(0), -1, -1) / 2
            self.register_buffer(f"level{i}", torch.cat([xy - half, xy + half], -1).flatten(0, 1), persistent=False)

    def forward(self):
        return torch.cat([getattr(self, f"level{i}") for i in range(self.levels)])


def iou(a, b):
    lt, rb = torch.max(a[:, None, :2], b[:, :2]), torch.min(a[:, None, 2:], b[:, 2:])
    inter = (rb - lt).clamp(min=0).prod(2)
    area = lambda t: (t[:, 2] - t[:, 0]) * (t[:, 3] - t[:, 1])
    return inter / (area(a)[:, None] + area(b) - inter)


def match(anchors, gt, high=0.5, low=0.3):
    """For each anchor the index of its box, -1 for background and -2 for 'ignore'."""
    if gt.size(0) == 0:
        return torch.full((anchors.size(0),), -1, dtype=torch.long, device=anchors.device)
    table = iou(anchors, gt)
    value, index = table.max(dim=1)
    result = torch.where(value >= high, index, torch.full_like(index, -2))
    result[value < low] = -1
    best_anchor = table.argmax(dim=0)  # every box gets at least one anchor
    result[best_anchor] = torch.arange(gt.size(0), device=gt.device)
    return result


def encode(anchors, boxes):
    awh, bwh = anchors[:, 2:] - anchors[:, :2], boxes[:, 2:] - boxes[:, :2]
    ac, bc = anchors[:, :2] + awh / 2, boxes[:, :2] + bwh / 2
    return torch.cat([(bc - ac) / awh, (bwh / awh).log()], dim=1)


def decode(anchors, delta, max_log=math.log(1000 / 16)):
    awh = anchors[:, 2:] - anchors[:, :2]
    c = anchors[:, :2] + awh / 2 + delta[:, :2] * awh
    wh = awh * delta[:, 2:].clamp(max=max_log).exp()
    return torch.cat([c - wh / 2, c + wh / 2], dim=1)


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    anchors = AnchorGrid().to(device)()
    gt = torch.tensor([[5.0, 6.0, 20.0, 18.0], [30.0, 28.0, 60.0, 58.0]], device=device)
    assigned = match(anchors, gt)
    positive = assigned >= 0
    delta = encode(anchors[positive], gt[assigned[positive]])
    torch.testing.assert_close(decode(anchors[positive], delta), gt[assigned[positive]])
    counts = [(assigned == k).sum().item() for k in (-2, -1, 0, 1)]
    print(f"{anchors.size(0)} anchors: ignored {counts[0]}, background {counts[1]}, per box {counts[2:]}")
    assert (match(anchors, gt[:0]) == -1).all()


if __name__ == "__main__":
    main()
