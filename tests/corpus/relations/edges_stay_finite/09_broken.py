from typing import Dict

import torch
import torch.nn as nn
import torch.nn.functional as F


def rotation_angle(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Angle in radians between rotations given as unit quaternions (..., 4)."""
    dot = (a * b).sum(dim=-1).abs()
    return 2 * torch.acos(dot.clamp(max=1.0))


class PoseLoss(nn.Module):
    """Rotation and translation error with learned uncertainty weights."""

    def __init__(self) -> None:
        super().__init__()
        self.log_var = nn.Parameter(torch.zeros(2))

    def forward(self, pred: Dict[str, torch.Tensor], target: Dict[str, torch.Tensor]) -> torch.Tensor:
        """Both dicts hold ``rotation`` (B, 4) and ``translation`` (B, 3)."""
        angle = rotation_angle(pred["rotation"], target["rotation"]).mean()
        shift = (pred["translation"] - target["translation"]).abs().sum(dim=-1).mean()
        weight = torch.exp(-self.log_var)
        return weight[0] * angle + weight[1] * shift + self.log_var.sum()


class PoseRefiner(nn.Module):
    """Predicts an update of an initial pose from image features.

    The last layer starts at zero, so that the first prediction is the initial pose.
    """

    def __init__(self, features: int, hidden: int = 64):
        super().__init__()
        self.hidden = nn.Linear(features, hidden)
        self.update = nn.Linear(hidden, 7)
        nn.init.zeros_(self.update.weight)
        nn.init.zeros_(self.update.bias)

    def forward(self, features: torch.Tensor, rotation: torch.Tensor,
                translation: torch.Tensor) -> Dict[str, torch.Tensor]:
        delta = self.update(F.relu(self.hidden(features)))
        return {
            "rotation": F.normalize(rotation + delta[:, :4], dim=-1),
            "translation": translation + delta[:, 4:],
        }
