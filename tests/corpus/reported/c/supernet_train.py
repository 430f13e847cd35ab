# source: https://github.com/microsoft/Cream/issues/2
# target: script
# truth: the optimizer state is restored while the model is still on the CPU and the model is moved afterwards, so
#   the momentum buffers stay on the CPU and the first optimizer.step() after a resume fails on a GPU
import argparse
import os
import tempfile

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class MixedBlock(nn.Module):
    """One of several candidate operations is active in each forward pass."""

    def __init__(self, channels, kernels=(3, 5)):
        super().__init__()
        self.ops = nn.ModuleList(nn.Conv2d(channels, channels, k, padding=k // 2, groups=channels) for k in kernels)
        self.bn = nn.BatchNorm2d(channels)

    def forward(self, x, choice):
        return torch.relu(self.bn(self.ops[choice](x))) + x


class SuperNet(nn.Module):
    def __init__(self, num_classes=5, channels=8, depth=3):
        super().__init__()
        self.stem = nn.Conv2d(3, channels, 3, stride=2, padding=1)
        self.blocks = nn.ModuleList(MixedBlock(channels) for _ in range(depth))
        self.head = nn.Linear(channels, num_classes)

    def random_arch(self):
        return [int(torch.randint(len(b.ops), (1,))) for b in self.blocks]

    def forward(self, x, arch):
        x = self.stem(x)
        for block, choice in zip(self.blocks, arch):
            x = block(x, choice)
        return self.head(x.mean(dim=(2, 3)))


def save_checkpoint(path, epoch, model, optimizer):
    torch.save({"epoch": epoch, "state_dict": model.state_dict(), "optimizer": optimizer.state_dict()}, path)


def resume_checkpoint(path, model, optimizer):
    checkpoint = torch.load(path, map_location="cpu")
    model.load_state_dict(checkpoint["state_dict"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    return checkpoint["epoch"] + 1


def train_epoch(epoch, model, loader, optimizer, criterion, device):
    model.train()
    total = 0.0
    for images, target in loader:
        images, target = images.to(device), target.to(device)
        loss = criterion(model(images, model.random_arch()), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(f"epoch {epoch}: loss {total / len(loader):.4f}")


def run(args, device):
    model = SuperNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, weight_decay=1e-4)
    start_epoch = 0
    if args.auto_resume and os.path.exists(args.checkpoint):
        start_epoch = resume_checkpoint(args.checkpoint, model, optimizer)
    model.to(device)  # culprit

    data = TensorDataset(torch.randn(16, 3, 16, 16), torch.randint(0, 5, (16,)))
    loader = DataLoader(data, batch_size=8, shuffle=True)
    criterion = nn.CrossEntropyLoss().to(device)
    for epoch in range(start_epoch, start_epoch + args.epochs):
        train_epoch(epoch, model, loader, optimizer, criterion, device)
        save_checkpoint(args.checkpoint, epoch, model, optimizer)
    return optimizer


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--auto_resume", action="store_true", default=True)
    args = parser.parse_args([])
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        args.checkpoint = os.path.join(folder, "last.pth.tar")
        run(args, device)
        run(args, device)


if __name__ == "__main__":
    main()
