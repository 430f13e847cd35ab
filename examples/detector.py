"""Devices, shapes and in-place writes: three faults whose errors appear on other lines than they were made."""

import torch
import torch.nn as nn


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Conv2d(3, 16, 3, padding=1)
        self.score = nn.Linear(16, 1)
        self.anchors = torch.linspace(0.1, 1.0, 16)

    def forward(self, images):
        features = self.backbone(images).mean(dim=(2, 3))
        weights = torch.exp(features)
        weights.clamp_(max=10.0)
        return self.score(weights * features)


def losses(model, images):
    objectness = model(images)
    present = torch.ones(images.shape[0])
    return nn.BCEWithLogitsLoss()(objectness, present)


def demo():
    model = Detector().cuda()
    images = torch.randn(8, 3, 64, 64, device="cuda")
    target = torch.zeros(8, 1)
    prediction = torch.sigmoid(model(images))
    error = nn.functional.mse_loss(prediction, target)
    scores = torch.randn(8, 1, device="cuda", requires_grad=True)
    wanted = torch.zeros(8, device="cuda")
    return error + nn.functional.mse_loss(scores, wanted)
