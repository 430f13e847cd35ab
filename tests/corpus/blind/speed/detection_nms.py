# target: match_anchors
# truth: The IoU matrix is filled by a Python double loop with .item() per pair instead of broadcasting; for 2000 anchors and 20 boxes this
#   takes seconds where the vectorised form takes about a millisecond.
"""Anchor matching for a single-shot detector (boxes are x1, y1, x2, y2)."""
import torch


def make_anchors(image_size=320, stride=16, sizes=(32, 64, 96, 128, 192)):
    centres = torch.arange(stride // 2, image_size, stride).float()
    cy, cx = torch.meshgrid(centres, centres, indexing="ij")
    centre = torch.stack([cx, cy], dim=-1).reshape(-1, 1, 2)
    half = torch.tensor(sizes).float().view(1, -1, 1) / 2
    return torch.cat([centre - half, centre + half], dim=-1).reshape(-1, 4)


def box_area(boxes):
    return (boxes[:, 2] - boxes[:, 0]).clamp(min=0) * (boxes[:, 3] - boxes[:, 1]).clamp(min=0)


def iou_matrix(a, b):
    area_a, area_b = box_area(a), box_area(b)
    iou = torch.zeros(len(a), len(b))
    for i in range(len(a)):
        for j in range(len(b)):  # error: DG607
            x1 = max(a[i, 0].item(), b[j, 0].item())
            y1 = max(a[i, 1].item(), b[j, 1].item())
            x2 = min(a[i, 2].item(), b[j, 2].item())
            y2 = min(a[i, 3].item(), b[j, 3].item())
            inter = max(x2 - x1, 0) * max(y2 - y1, 0)
            iou[i, j] = inter / (area_a[i].item() + area_b[j].item() - inter)
    return iou


def match_anchors(anchors, gt_boxes, gt_labels, pos_iou=0.5, neg_iou=0.4):
    """Class target per anchor: label, 0 for background, -1 for ignored; and the matched box index."""
    iou = iou_matrix(anchors, gt_boxes)
    best_iou, best_gt = iou.max(dim=1)
    target = torch.full((len(anchors),), -1, dtype=torch.long, device=anchors.device)
    target[best_iou < neg_iou] = 0
    positive = best_iou >= pos_iou
    target[positive] = gt_labels[best_gt[positive]]
    # every ground-truth box keeps its best anchor
    forced = iou.argmax(dim=0)
    target[forced] = gt_labels
    best_gt[forced] = torch.arange(len(gt_boxes), device=anchors.device)
    return target, best_gt


def encode_boxes(anchors, matched):
    wh_a = anchors[:, 2:] - anchors[:, :2]
    wh_m = matched[:, 2:] - matched[:, :2]
    centre = ((matched[:, 2:] + matched[:, :2]) - (anchors[:, 2:] + anchors[:, :2])) / (2 * wh_a)
    return torch.cat([centre / 0.1, (wh_m / wh_a).log() / 0.2], dim=1)


def random_targets(n=20, image_size=320, n_classes=5):
    xy = torch.rand(n, 2) * (image_size - 64)
    wh = torch.rand(n, 2) * 96 + 16
    return torch.cat([xy, xy + wh], dim=1), torch.randint(1, n_classes + 1, (n,))
