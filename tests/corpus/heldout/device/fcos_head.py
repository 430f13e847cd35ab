# target: Detector.detect
# truth: level_locations builds the grid on the CPU whatever the feature map's device; on a GPU FCOSHead.decode then
#   fails at locations - left_top with 'RuntimeError: Expected all tensors to be on the same device, but found at least
#   two devices, cuda:0 and cpu!'. On CPU it works.
"""Anchor-free detection head (FCOS style): per-level locations, decoding and selection."""
from typing import List, Sequence, Tuple

import torch
from torch import Tensor, nn


def level_locations(feature: Tensor, stride: int) -> Tensor:
    """Image coordinates (x, y) of the cell centres of one feature map, row-major."""
    h, w = feature.shape[-2:]
    ys, xs = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")  # error: DG203|DG205
    return (torch.stack([xs, ys], dim=-1).reshape(-1, 2) + 0.5) * stride


class FCOSHead(nn.Module):
    def __init__(self, channels: int, n_classes: int, strides: Sequence[int], depth: int = 2):
        super().__init__()
        self.strides, self.n_classes = tuple(strides), n_classes
        self.cls_tower = self._tower(channels, depth)
        self.box_tower = self._tower(channels, depth)
        self.cls_out = nn.Conv2d(channels, n_classes, 3, padding=1)
        self.box_out = nn.Conv2d(channels, 4, 3, padding=1)
        self.ctr_out = nn.Conv2d(channels, 1, 3, padding=1)
        self.scales = nn.Parameter(torch.ones(len(self.strides)))

    @staticmethod
    def _tower(channels: int, depth: int) -> nn.Sequential:
        layers = []
        for _ in range(depth):
            layers += [nn.Conv2d(channels, channels, 3, padding=1), nn.GroupNorm(4, channels), nn.ReLU()]
        return nn.Sequential(*layers)

    def forward(self, features: List[Tensor]) -> Tuple[Tensor, Tensor, Tensor]:
        """Class logits (B, N, C), boxes (B, N, 4) as x1y1x2y2 and centreness logits (B, N)."""
        logits, boxes, centre = [], [], []
        for i, (feature, stride) in enumerate(zip(features, self.strides)):
            c, r = self.cls_tower(feature), self.box_tower(feature)
            ltrb = (self.scales[i] * self.box_out(r)).exp() * stride
            logits.append(self.cls_out(c).flatten(2).transpose(1, 2))
            centre.append(self.ctr_out(r).flatten(1))
            boxes.append(self.decode(ltrb.flatten(2).transpose(1, 2), level_locations(feature, stride)))
        return torch.cat(logits, dim=1), torch.cat(boxes, dim=1), torch.cat(centre, dim=1)

    @staticmethod
    def decode(ltrb: Tensor, locations: Tensor) -> Tensor:
        left_top, right_bottom = ltrb.split(2, dim=-1)
        return torch.cat([locations - left_top, locations + right_bottom], dim=-1)


class Detector(nn.Module):
    def __init__(self, backbone: nn.Module, head: FCOSHead, top_k: int = 100):
        super().__init__()
        self.backbone, self.head, self.top_k = backbone, head, top_k

    def forward(self, images: Tensor):
        return self.head(self.backbone(images))

    @torch.no_grad()
    def detect(self, images: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        """Best top_k candidates per image: boxes, scores and labels (before NMS)."""
        logits, boxes, centre = self(images)
        scores = (logits.sigmoid() * centre.sigmoid().unsqueeze(-1)).sqrt()
        best, flat = scores.flatten(1).topk(min(self.top_k, scores[0].numel()), dim=1)
        cell, label = flat // self.head.n_classes, flat % self.head.n_classes
        picked = boxes.gather(1, cell.unsqueeze(-1).expand(-1, -1, 4))
        h, w = images.shape[-2:]
        limit = picked.new_tensor([w, h, w, h])
        return picked.clamp(min=0).minimum(limit), best, label
