"""Images from NumPy: bytes widened before they are subtracted, samples copied before they are changed."""
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset, WeightedRandomSampler, random_split

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Frames(Dataset):
    def __init__(self, n=40, augment=False):
        rng = np.random.default_rng(0)
        self.images = rng.integers(0, 256, (n, 16, 16, 3), dtype=np.uint8)
        self.labels = (rng.random(n) < 0.25).astype(np.int64)
        self.augment = augment

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        image = self.images[index]
        if self.augment:
            image = image.copy()
            image[:2] = 0
        motion = image.astype(np.int16) - self.images[index - 1].astype(np.int16)
        x = torch.from_numpy(np.concatenate([image, np.abs(motion).astype(np.uint8)], axis=-1))
        return x.permute(2, 0, 1).float().div_(255), int(self.labels[index])


class View(Dataset):
    """A part of a dataset with a transform of its own."""

    def __init__(self, part, transform):
        self.part, self.transform = part, transform

    def __len__(self):
        return len(self.part)

    def __getitem__(self, index):
        x, y = self.part[index]
        return self.transform(x), y


def seed_worker(worker):
    np.random.seed(torch.initial_seed() % 2**32)


def loaders():
    frames = Frames(augment=True)
    parts = random_split(frames, [30, 10], generator=torch.Generator().manual_seed(0))
    train, test = View(parts[0], lambda x: x + 0.01 * torch.randn_like(x)), View(parts[1], lambda x: x)
    labels = torch.as_tensor(frames.labels)[parts[0].indices]
    counts = torch.bincount(labels, minlength=2).clamp(min=1)
    weights = (1.0 / counts)[labels]
    sampler = WeightedRandomSampler(weights, num_samples=len(weights), replacement=True)
    options = {"batch_size": 8, "num_workers": 2, "worker_init_fn": seed_worker, "pin_memory": device.type == "cuda"}
    return DataLoader(train, sampler=sampler, **options), DataLoader(test, **options)


def main(epochs=2):
    torch.manual_seed(0)
    train, test = loaders()
    model = nn.Sequential(nn.Conv2d(6, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 1)).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(epochs):
        model.train()
        for x, y in train:
            x, y = x.to(device), y.to(device)
            loss = F.binary_cross_entropy_with_logits(model(x).squeeze(1), y.float())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        model.eval()
        correct = total = 0
        with torch.inference_mode():
            for x, y in test:
                predicted = (model(x.to(device)).squeeze(1) > 0).long()
                correct += (predicted == y.to(device)).sum().item()
                total += y.numel()
    return correct / total


if __name__ == "__main__":
    print(main())
