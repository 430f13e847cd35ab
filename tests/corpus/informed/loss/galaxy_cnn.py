# target: GalaxyNet.forward
# truth: The convolutions leave 32 x 6 x 6 = 1152 features of a 64 x 64 image, the linear layer expects 32 x 8 x 8:
#   "mat1 and mat2 shapes cannot be multiplied".
"""Galaxy morphology from 64 x 64 cut-outs."""

import torch
import torch.nn as nn


def block(inputs, outputs):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel_size=3, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(),
        nn.MaxPool2d(2),
    )


class GalaxyNet(nn.Module):
    """Answers of 37 questions, each a probability.

    >>> GalaxyNet()(torch.rand(2, 3, 64, 64)).shape
    torch.Size([2, 37])
    """

    def __init__(self, answers=37):
        super().__init__()
        self.features = nn.Sequential(block(3, 8), block(8, 16), block(16, 32))
        self.classifier = nn.Sequential(
            nn.Dropout(0.5),
            nn.Linear(32 * 8 * 8, 64),  # error: DG315|DG314
            nn.ReLU(),
            nn.Linear(64, answers),
        )

    def forward(self, images):
        features = self.features(images)
        return self.classifier(features.flatten(1)).sigmoid()


def rmse(model, images, answers):
    return torch.sqrt(nn.functional.mse_loss(model(images), answers) + 1e-12)


def train(model, loader, epochs, lr=1e-3):
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    for _ in range(epochs):
        for images, answers in loader:
            optimizer.zero_grad()
            rmse(model, images, answers).backward()
            optimizer.step()
