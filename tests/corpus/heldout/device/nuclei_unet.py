# target: script
# truth: The transform runs in the DataLoader's forked workers and moves each sample to the GPU there; CUDA is already
#   initialised in the parent (the model is on the GPU), so the first batch raises "RuntimeError: Cannot re-initialize
#   CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the 'spawn' start method" from worker
#   process 0. On CPU it runs.
"""Kaggle nuclei segmentation: small U-Net, crops from memory, multi-process loading."""
import argparse

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Normalize:
    """Standardises a uint8 HWC image and returns it as a float CHW tensor."""

    def __init__(self, mean, std, device="cpu"):
        self.device = device
        self.mean = torch.tensor(mean).view(3, 1, 1)
        self.std = torch.tensor(std).view(3, 1, 1)

    def __call__(self, image):
        x = torch.from_numpy(image).permute(2, 0, 1).float() / 255.0
        return ((x - self.mean) / self.std).to(self.device)


class NucleiCrops(Dataset):
    def __init__(self, images, masks, size, transform):
        self.images, self.masks, self.size, self.transform = images, masks, size, transform

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        h, w = self.masks[i].shape
        top = int(torch.randint(0, h - self.size + 1, ()))
        left = int(torch.randint(0, w - self.size + 1, ()))
        window = np.s_[top:top + self.size, left:left + self.size]
        mask = torch.from_numpy(self.masks[i][window].astype(np.float32))
        return self.transform(np.ascontiguousarray(self.images[i][window])), mask


def block(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU())


class UNet(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.d1, self.d2, self.mid = block(3, width), block(width, 2 * width), block(2 * width, 2 * width)
        self.u2, self.u1 = block(4 * width, width), block(2 * width, width)
        self.out = nn.Conv2d(width, 1, 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(F.max_pool2d(a, 2))
        m = self.mid(F.max_pool2d(b, 2))
        y = self.u2(torch.cat([F.interpolate(m, size=b.shape[-2:]), b], dim=1))
        y = self.u1(torch.cat([F.interpolate(y, size=a.shape[-2:]), a], dim=1))
        return self.out(y).squeeze(1)


def make_loader(images, masks, args, device):
    transform = Normalize((0.5, 0.5, 0.5), (0.25, 0.25, 0.25), device)  # error: DG210
    data = NucleiCrops(images, masks, args.size, transform)
    return DataLoader(data, batch_size=4, shuffle=True, num_workers=args.workers)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (8, 48, 48, 3), dtype=np.uint8)
    model = UNet().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loader = make_loader(images, images.mean(axis=3) > 140, args, device)
    for epoch in range(args.epochs):
        for x, mask in loader:
            x, mask = x.to(device), mask.to(device)
            loss = F.binary_cross_entropy_with_logits(model(x), mask)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} last loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
