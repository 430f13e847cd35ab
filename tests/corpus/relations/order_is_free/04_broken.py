"""Temporal smoothing of predicted keypoints."""
import torch


def smooth_keypoints(keypoints: torch.Tensor, alpha: float = 0.6) -> torch.Tensor:
    """Exponential smoothing over the frames of every clip.

    Args:
        keypoints: (clips, frames, joints, 2) image coordinates.
        alpha: weight of the new frame.

    Returns:
        tensor of the same shape.
    """
    smoothed = []
    state = keypoints[0]
    for current in keypoints.unbind(dim=0):
        state = alpha * current + (1.0 - alpha) * state
        smoothed.append(state)
    return torch.stack(smoothed, dim=0)


def keypoint_speed(keypoints: torch.Tensor, fps: float = 25.0) -> torch.Tensor:
    """Mean speed of each joint in pixels per second, (clips, joints)."""
    step = keypoints[:, 1:] - keypoints[:, :-1]
    return step.norm(dim=-1).mean(dim=1) * fps


def jitter(keypoints: torch.Tensor) -> torch.Tensor:
    """Mean distance between raw and smoothed joints per clip, (clips,)."""
    return (keypoints - smooth_keypoints(keypoints)).norm(dim=-1).mean(dim=(1, 2))
