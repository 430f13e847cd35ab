# target: pose_loss
# truth: acos has an infinite derivative at +-1 and clamp(-1, 1) lets exactly those values (and their gradient) through,
#   so whenever prediction and target coincide (identity-initialised head on a canonical pose) or are opposite, the loss
#   is finite but backward gives inf*0 = NaN gradients.
"""Losses and heads for 6-DoF object pose regression."""
from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def rotation_from_6d(x: Tensor) -> Tensor:
    """Continuous 6D representation (Zhou et al.) to rotation matrices.

    >>> rotation_from_6d(torch.tensor([[1., 0., 0., 0., 1., 0.]])).shape
    torch.Size([1, 3, 3])
    """
    a, b = x[..., :3], x[..., 3:]
    e1 = F.normalize(a, dim=-1)
    e2 = F.normalize(b - (e1 * b).sum(-1, keepdim=True) * e1, dim=-1)
    e3 = torch.linalg.cross(e1, e2)
    return torch.stack((e1, e2, e3), dim=-1)


def geodesic_angle(r1: Tensor, r2: Tensor) -> Tensor:
    """Angle in radians between two batches of rotations, (..., 3, 3) -> (...)."""
    relative = r1 @ r2.transpose(-1, -2)
    trace = relative.diagonal(dim1=-2, dim2=-1).sum(-1)
    cos = (trace - 1.0) / 2.0
    return torch.acos(cos.clamp(-1.0, 1.0))  # error: DG410|DG412


class RotationHead(nn.Module):
    """Predicts a correction on top of the identity rotation.

    The last layer starts at zero so that training begins from the canonical pose.
    """

    def __init__(self, in_features: int) -> None:
        super().__init__()
        self.proj = nn.Linear(in_features, 6)
        nn.init.zeros_(self.proj.weight)
        with torch.no_grad():
            self.proj.bias.copy_(torch.tensor([1.0, 0.0, 0.0, 0.0, 1.0, 0.0]))

    def forward(self, feats: Tensor) -> Tensor:
        return rotation_from_6d(self.proj(feats))


def pose_loss(
    pred_rot: Tensor,
    pred_trans: Tensor,
    gt_rot: Tensor,
    gt_trans: Tensor,
    rot_weight: float = 1.0,
) -> Tensor:
    """Mean geodesic rotation error plus smooth-L1 translation error."""
    angle = geodesic_angle(pred_rot, gt_rot)
    trans = F.smooth_l1_loss(pred_trans, gt_trans)
    return rot_weight * angle.mean() + trans
