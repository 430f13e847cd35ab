# target: evaluate
# truth: The confusion matrix is filled by a Python loop over every pixel's tensor element: on a GPU each pixel costs
#   index reads that wait for the device and several tiny kernels, so evaluation takes minutes per image.
"""Mean intersection over union for semantic segmentation."""
from __future__ import annotations

import torch
from torch import nn


class SegmentationScores:
    """Accumulates a confusion matrix (rows: truth, columns: prediction).

    >>> scores = SegmentationScores(2, torch.device("cpu"))
    >>> scores.update(torch.tensor([[0, 1, 1]]), torch.tensor([[0, 1, 255]]))
    >>> scores.mean_iou()
    1.0
    """

    def __init__(self, num_classes: int, device: torch.device, ignore_index: int = 255):
        self.num_classes = num_classes
        self.ignore_index = ignore_index
        self.matrix = torch.zeros(num_classes, num_classes, dtype=torch.long, device=device)

    def reset(self) -> None:
        self.matrix.zero_()

    def update(self, prediction: torch.Tensor, target: torch.Tensor) -> None:
        """Both (batch, height, width) class indices on the device of the matrix."""
        valid = target != self.ignore_index
        truth, guess = target[valid], prediction[valid]
        for t, g in zip(truth, guess):  # error: DG607
            self.matrix[t, g] += 1

    def iou(self) -> torch.Tensor:
        """Per class; NaN for classes that occur neither in truth nor in prediction."""
        hit = self.matrix.diagonal().double()
        union = self.matrix.sum(0) + self.matrix.sum(1) - self.matrix.diagonal()
        return hit / union

    def mean_iou(self) -> float:
        return self.iou().nanmean().item()

    def pixel_accuracy(self) -> float:
        return (self.matrix.diagonal().sum() / self.matrix.sum()).item()


@torch.inference_mode()
def evaluate(model: nn.Module, loader, num_classes: int, device: torch.device) -> dict[str, float]:
    """`loader` yields (images, label maps); the model returns (batch, classes, height, width) logits."""
    was_training = model.training
    model.eval()
    scores = SegmentationScores(num_classes, device)
    for images, labels in loader:
        logits = model(images.to(device, non_blocking=True))
        scores.update(logits.argmax(dim=1), labels.to(device, non_blocking=True))
    model.train(was_training)
    return {"miou": scores.mean_iou(), "accuracy": scores.pixel_accuracy()}
