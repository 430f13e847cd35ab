# source: https://github.com/mapbox/robosat/pull/109
# target: validate
# truth: the validation runs in evaluation mode but with gradients enabled, so each forward pass keeps all activations
#   for a backward that never comes; peak memory is that of training and large validation tiles run out of memory
import argparse, collections, math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class SlippyMapTiles(Dataset):
    """Aerial image tiles with building masks."""

    def __init__(self, tiles, size, seed):
        gen = torch.Generator().manual_seed(seed)
        self.images = torch.rand(tiles, 3, size, size, generator=gen)
        self.masks = (self.images.mean(dim=1) > 0.5).long()

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return self.images[i], self.masks[i], f"18/{69105 + i}/105093"


class ConvRelu(nn.Module):
    def __init__(self, num_in, num_out):
        super().__init__()
        self.block = nn.Conv2d(num_in, num_out, kernel_size=3, padding=1, bias=False)

    def forward(self, x):
        return F.relu(self.block(x))


class UNet(nn.Module):
    def __init__(self, num_classes, num_filters=8):
        super().__init__()
        self.enc0 = ConvRelu(3, num_filters)
        self.enc1 = ConvRelu(num_filters, num_filters * 2)
        self.dec0 = ConvRelu(num_filters * 3, num_filters)
        self.final = nn.Conv2d(num_filters, num_classes, kernel_size=1)

    def forward(self, x):
        enc0 = self.enc0(x)
        enc1 = self.enc1(F.max_pool2d(enc0, 2))
        up = F.interpolate(enc1, scale_factor=2, mode="nearest")
        return self.final(self.dec0(torch.cat([up, enc0], dim=1)))


class Metrics:
    def __init__(self):
        self.tn = self.fn = self.fp = self.tp = 0

    def add(self, actual, predicted):
        masks = torch.argmax(predicted, 0)
        confusion = masks.view(-1).float() / actual.view(-1).float()
        self.tn += torch.sum(torch.isnan(confusion)).item()
        self.fn += torch.sum(confusion == float("inf")).item()
        self.fp += torch.sum(confusion == 0).item()
        self.tp += torch.sum(confusion == 1).item()

    def get_miou(self):
        parts = [(self.tn, self.fp + self.fn), (self.tp, self.fp + self.fn)]
        return sum(hit / (hit + miss) if hit + miss else math.nan for hit, miss in parts) / 2


def train(loader, net, optimizer, criterion, device):
    net.train()
    running_loss, num_samples = 0.0, 0
    for images, masks, _ in loader:
        images, masks = images.to(device), masks.to(device)
        num_samples += int(images.size(0))
        optimizer.zero_grad()
        loss = criterion(net(images), masks)
        loss.backward()
        optimizer.step()
        running_loss += loss.item()
    return {"loss": running_loss / num_samples}


def validate(loader, net, criterion, device):  # culprit
    net.eval()
    running_loss, num_samples, metrics = 0.0, 0, Metrics()
    for images, masks, tiles in loader:
        images, masks = images.to(device), masks.to(device)
        num_samples += int(images.size(0))
        outputs = net(images)
        loss = criterion(outputs, masks)
        running_loss += loss.item()
        for mask, output in zip(masks, outputs):
            metrics.add(mask, output)
    return {"loss": running_loss / num_samples, "miou": metrics.get_miou()}


def main(args):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(0)
    net = UNet(num_classes=2).to(device)
    optimizer = torch.optim.Adam(net.parameters(), lr=args.lr)
    criterion = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 1.5])).to(device)
    train_loader = DataLoader(SlippyMapTiles(8, 16, 0), batch_size=2, shuffle=True, drop_last=True)
    val_loader = DataLoader(SlippyMapTiles(4, 32, 1), batch_size=4)
    history = collections.defaultdict(list)
    for epoch in range(args.epochs):
        for prefix, result in (("train", train(train_loader, net, optimizer, criterion, device)),
                               ("val", validate(val_loader, net, criterion, device))):
            for k, v in result.items():
                history[f"{prefix} {k}"].append(v)
        print(f"epoch {epoch + 1}/{args.epochs}", {k: round(v[-1], 4) for k, v in history.items()})


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--lr", type=float, default=1e-2)
    main(parser.parse_args([]))
