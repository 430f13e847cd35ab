# target: script
# source: https://github.com/facebookresearch/pycls/pull/21
# truth: the augmentation works in place on a view of the stored images, so every __getitem__ permanently alters the
#   dataset; flips and noise pile up epoch after epoch and the training images degrade into noise, silently.
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


def synth_images(n, generator):
    """Bars of different orientation on dark ground, two classes."""
    imgs = 0.05 * torch.randn(n, 1, 16, 16, generator=generator)
    labels = torch.randint(0, 2, (n,), generator=generator)
    for i, y in enumerate(labels.tolist()):
        k = int(torch.randint(3, 13, (1,), generator=generator))
        if y:
            imgs[i, 0, k - 1:k + 2, :] += 1.0
        else:
            imgs[i, 0, :, k - 1:k + 2] += 1.0
    return imgs, labels


class Bars(Dataset):
    def __init__(self, images, labels, split="train", noise=0.3, mean=0.2):
        self._images = images
        self._labels = labels
        self._split = split
        self._noise = noise
        self._mean = mean

    def __len__(self):
        return self._images.size(0)

    def _transform(self, im):
        im.sub_(self._mean)
        if self._split == "train":
            if torch.rand(()) < 0.5:
                im.copy_(im.flip(-1).clone())
            im.add_(torch.randn_like(im), alpha=self._noise)
        return im

    def __getitem__(self, index):
        im = self._images[index]  # error: DG803
        return self._transform(im), self._labels[index]


def build_net():
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(16, 2),
    )


def run_epoch(net, loader, opt=None):
    hits = seen = 0
    for x, y in loader:
        logits = net(x)
        if opt is not None:
            loss = nn.functional.cross_entropy(logits, y)
            opt.zero_grad()
            loss.backward()
            opt.step()
        hits += (logits.argmax(1) == y).sum().item()
        seen += y.numel()
    return hits / seen


torch.manual_seed(5)
g = torch.Generator().manual_seed(8)
train_x, train_y = synth_images(256, g)
train_set = Bars(train_x, train_y)
train_loader = DataLoader(train_set, batch_size=32, shuffle=True, num_workers=0)
net = build_net()
opt = torch.optim.Adam(net.parameters(), lr=5e-3)
for epoch in range(12):
    acc = run_epoch(net, train_loader, opt)
    print(f"epoch {epoch:2d}  train acc {acc:.3f}  stored images: mean {train_x.mean():+.2f} std {train_x.std():.2f}")
