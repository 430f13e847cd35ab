# source: https://github.com/zillur01/LVLane/issues/13
# target: Runner.train_epoch
# truth: the helper that moves a batch tests the dictionary keys, not the values, so no tensor is ever moved;
#   on a GPU the first layer gets a CPU image and raises a device mismatch error
import argparse
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


class LaneDataset(Dataset):
    def __init__(self, size=16, height=24, width=48, lanes=2):
        gen = torch.Generator().manual_seed(3)
        self.images = torch.randn(size, 3, height, width, generator=gen)
        self.masks = torch.randint(0, lanes + 1, (size, height, width), generator=gen)
        self.category = torch.randint(0, 4, (size,), generator=gen)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return {"img": self.images[i], "mask": self.masks[i], "category": self.category[i],
                "meta": f"clips/{i:04d}.jpg"}


class LaneNet(nn.Module):
    def __init__(self, lanes=2, categories=4, channels=8):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, channels, 3, stride=2, padding=1), nn.BatchNorm2d(channels), nn.ReLU())
        self.seg = nn.Conv2d(channels, lanes + 1, 1)
        self.cls = nn.Linear(channels, categories)

    def forward(self, batch):
        feat = self.stem(batch["img"])
        seg = F.interpolate(self.seg(feat), size=batch["img"].shape[-2:], mode="bilinear", align_corners=False)
        return {"seg": seg, "category": self.cls(feat.mean(dim=(2, 3)))}

    def loss(self, output, batch):
        seg_loss = F.cross_entropy(output["seg"], batch["mask"])
        cls_loss = F.cross_entropy(output["category"], batch["category"])
        return {"loss": seg_loss + 0.5 * cls_loss,
                "stats": {"seg": seg_loss.detach(), "cls": cls_loss.detach()}}


class Runner:
    def __init__(self, cfg):
        self.cfg = cfg
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.net = LaneNet().to(self.device)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=cfg.lr)
        self.step = 0

    def to_device(self, batch):
        for k in batch:
            if not isinstance(k, torch.Tensor):  # culprit
                continue
            batch[k] = batch[k].to(self.device, non_blocking=True)
        return batch

    def train_epoch(self, epoch, loader):
        self.net.train()
        end = time.time()
        for i, data in enumerate(loader):
            data = self.to_device(data)
            output = self.net(data)
            losses = self.net.loss(output, data)
            self.optimizer.zero_grad()
            losses["loss"].backward()
            self.optimizer.step()
            self.step += 1
            if i % self.cfg.log_interval == 0:
                stats = {k: round(v.item(), 4) for k, v in losses["stats"].items()}
                print(f"epoch {epoch} iter {i} {stats} ({time.time() - end:.2f}s)")
                end = time.time()

    def train(self):
        loader = DataLoader(LaneDataset(), batch_size=self.cfg.batch_size, shuffle=True)
        for epoch in range(self.cfg.epochs):
            self.train_epoch(epoch, loader)


def parse_args(argv=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch_size", type=int, default=4)
    parser.add_argument("--log_interval", type=int, default=2)
    return parser.parse_args(argv)


if __name__ == "__main__":
    torch.manual_seed(0)
    Runner(parse_args([])).train()
