# target: craft_patch
# truth: The update of the patch writes in place to a leaf that requires grad while gradients are recorded: "a leaf
#   Variable that requires grad is being used in an in-place operation".
"""A universal adversarial patch, found by signed gradient ascent."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class TinyNet(nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2), nn.ReLU(), nn.Conv2d(8, 16, 3, stride=2), nn.ReLU())
        self.head = nn.Linear(16, classes)

    def forward(self, images):
        return self.head(self.features(images).mean(dim=(2, 3)))


def paste(images, patch, row, column):
    size = patch.shape[-1]
    padding = (column, images.shape[-1] - column - size, row, images.shape[-2] - row - size)
    mask = F.pad(torch.ones_like(patch), padding)
    return images * (1 - mask) + F.pad(patch, padding)


def craft_patch(model, loader, size=6, steps=2, alpha=2 / 255):
    device = next(model.parameters()).device
    model.eval()
    patch = torch.full((3, size, size), 0.5, device=device, requires_grad=True)
    for _ in range(steps):
        for images, labels in loader:
            images, labels = images.to(device), labels.to(device)
            loss = F.cross_entropy(model(paste(images, patch, 4, 4)), labels)
            (gradient,) = torch.autograd.grad(loss, patch)
            patch += alpha * gradient.sign()  # error: DG102
    return patch.detach()


def main():
    torch.manual_seed(0)
    loader = [(torch.rand(4, 3, 20, 20), torch.randint(0, 10, (4,))) for _ in range(2)]
    print(craft_patch(TinyNet(), loader).shape)


if __name__ == "__main__":
    main()
