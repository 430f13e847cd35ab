# target: script
# source: https://github.com/milesial/Pytorch-UNet/issues/468
# truth: none, the repaired twin of unet_amp_clipping.py
import logging

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, random_split

logging.basicConfig(level=logging.INFO, format="%(message)s")


class Blobs(Dataset):
    def __init__(self, n=160, size=24, seed=0):
        g = torch.Generator().manual_seed(seed)
        yy, xx = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
        cy, cx = (torch.randint(6, size - 6, (n, 1, 1), generator=g) for _ in range(2))
        r = torch.randint(3, 6, (n, 1, 1), generator=g)
        self.masks = ((yy - cy) ** 2 + (xx - cx) ** 2 < r ** 2).float().unsqueeze(1)
        self.images = self.masks + 0.5 * torch.randn(self.masks.shape, generator=g)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return {"image": self.images[i], "mask": self.masks[i]}


class DoubleConv(nn.Sequential):
    def __init__(self, i, o):
        super().__init__(nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(),
                         nn.Conv2d(o, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU())


class UNet(nn.Module):
    def __init__(self, base=8):
        super().__init__()
        self.inc, self.down = DoubleConv(1, base), DoubleConv(base, 2 * base)
        self.up, self.outc = DoubleConv(3 * base, base), nn.Conv2d(base, 1, 1)

    def forward(self, x):
        a = self.inc(x)
        b = F.interpolate(self.down(F.max_pool2d(a, 2)), scale_factor=2)
        return self.outc(self.up(torch.cat([a, b], 1)))


def dice(logits, mask, eps=1.0):
    p = torch.sigmoid(logits.float())
    return (2 * (p * mask).sum() + eps) / (p.sum() + mask.sum() + eps)


@torch.no_grad()
def evaluate(net, loader):
    net.eval()
    score = sum(dice(net(b["image"]), b["mask"]).item() for b in loader) / len(loader)
    net.train()
    return score


def train_model(model, device, epochs=5, batch_size=16, learning_rate=0.05, val_percent=0.2, amp=True, gradient_clipping=1.0):
    data = Blobs()
    n_val = int(len(data) * val_percent)
    train_set, val_set = random_split(data, [len(data) - n_val, n_val], generator=torch.Generator().manual_seed(0))
    train_loader = DataLoader(train_set, batch_size=batch_size, shuffle=True)
    val_loader = DataLoader(val_set, batch_size=batch_size)
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate, momentum=0.9)
    grad_scaler = torch.amp.GradScaler(device.type, enabled=amp)
    dtype = torch.float16 if device.type == "cuda" else torch.bfloat16
    for epoch in range(1, epochs + 1):
        model.train()
        epoch_loss = 0.0
        for batch in train_loader:
            images, masks = batch["image"].to(device), batch["mask"].to(device)
            with torch.autocast(device.type, dtype=dtype, enabled=amp):
                pred = model(images)
                loss = F.binary_cross_entropy_with_logits(pred.float(), masks) + 1 - dice(pred, masks)
            optimizer.zero_grad(set_to_none=True)
            grad_scaler.scale(loss).backward()
            grad_scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), gradient_clipping)
            grad_scaler.step(optimizer)
            grad_scaler.update()
            epoch_loss += loss.item()
        logging.info("epoch %d loss %.4f val dice %.4f", epoch, epoch_loss / len(train_loader), evaluate(model, val_loader))


if __name__ == "__main__":
    torch.manual_seed(0)
    dev = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train_model(UNet().to(dev), dev)
