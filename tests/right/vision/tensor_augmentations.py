"""Batched augmentations with tensors alone: flips, shifts by a sampling grid, brightness; off in evaluation."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class RandomAugment(nn.Module):
    def __init__(self, shift=0.2, brightness=0.2):
        super().__init__()
        self.shift, self.brightness = shift, brightness

    @torch.no_grad()
    def forward(self, x):
        if not self.training:
            return x
        n = x.size(0)
        flip = torch.rand(n, device=x.device) < 0.5
        theta = torch.zeros(n, 2, 3, device=x.device, dtype=x.dtype)
        theta[:, 0, 0] = torch.where(flip, -1.0, 1.0)
        theta[:, 1, 1] = 1.0
        theta[:, :, 2] = (torch.rand(n, 2, device=x.device) * 2 - 1) * self.shift
        grid = F.affine_grid(theta, list(x.shape), align_corners=False)
        x = F.grid_sample(x, grid, mode="bilinear", padding_mode="border", align_corners=False)
        gain = 1 + (torch.rand(n, 1, 1, 1, device=x.device) * 2 - 1) * self.brightness
        return x * gain


class Normalize(nn.Module):
    def __init__(self, mean, std):
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean).view(-1, 1, 1))
        self.register_buffer("std", torch.tensor(std).view(-1, 1, 1))

    def forward(self, x):
        return (x - self.mean) / self.std


def build(classes=2):
    return nn.Sequential(
        RandomAugment(),
        Normalize([0.5, 0.5, 0.5], [0.25, 0.25, 0.25]),
        nn.Conv2d(3, 12, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(12, 12, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(12, classes),
    )


def stored_images(n, seed):
    """Images as they are stored: bytes, channels last."""
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(2, (n,), generator=g)
    img = torch.randint(0, 120, (n, 12, 12, 3), generator=g)
    img[y == 0, 2:6] += 120
    img[y == 1, :, 2:6] += 120
    return img.to(torch.uint8), y


def to_float(img, device):
    return img.permute(0, 3, 1, 2).to(device).float().div(255)


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = build().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=5e-3)
    img, y = stored_images(160, 0)
    for epoch in range(6):
        model.train()
        for idx in torch.randperm(160).split(32):
            loss = F.cross_entropy(model(to_float(img[idx], device)), y[idx].to(device))
            opt.zero_grad()
            loss.backward()
            opt.step()
    model.eval()
    with torch.no_grad():
        img, y = stored_images(80, 1)
        x = to_float(img, device)
        assert torch.equal(model(x), model(x))
        print("accuracy", (model(x).argmax(1) == y.to(device)).float().mean().item())


if __name__ == "__main__":
    main()
