# source: https://github.com/KaiyangZhou/pytorch-center-loss/issues/23
import argparse

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


class CenterLoss(nn.Module):
    """Mean squared distance of the features to the center of their class."""

    def __init__(self, num_classes, feat_dim, device):
        super().__init__()
        self.num_classes = num_classes
        self.feat_dim = feat_dim
        self.centers = nn.Parameter(torch.randn(num_classes, feat_dim, device=device))

    def forward(self, x, labels):
        batch_size = x.size(0)
        distmat = x.square().sum(1, keepdim=True) + self.centers.square().sum(1)
        distmat = distmat - 2 * x @ self.centers.t()
        classes = torch.arange(self.num_classes, device=x.device)
        mask = labels.unsqueeze(1).eq(classes)
        return (distmat * mask).clamp(min=1e-12, max=1e12).sum() / batch_size


class ConvNet(nn.Module):
    def __init__(self, num_classes, feat_dim=2):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 5, stride=1, padding=2),
            nn.PReLU(),
            nn.MaxPool2d(2, 2),
            nn.Conv2d(16, 32, 5, stride=1, padding=2),
            nn.PReLU(),
            nn.MaxPool2d(2, 2),
        )
        self.fc1 = nn.Linear(32 * 4 * 4, feat_dim)
        self.act = nn.PReLU()
        self.fc2 = nn.Linear(feat_dim, num_classes)

    def forward(self, x):
        feat = self.act(self.fc1(self.features(x).flatten(1)))
        return feat, self.fc2(feat)


class AverageMeter:
    def __init__(self):
        self.sum = 0.0
        self.count = 0

    def update(self, val, n=1):
        self.sum += val * n
        self.count += n

    @property
    def avg(self):
        return self.sum / max(1, self.count)


def build_data(n, num_classes):
    protos = torch.randn(num_classes, 1, 16, 16)
    labels = torch.randint(0, num_classes, (n,))
    return TensorDataset(protos[labels] + 0.5 * torch.randn(n, 1, 16, 16), labels)


def train(model, criterion_xent, criterion_cent, opt_model, opt_cent, loader, args, device):
    model.train()
    xent_meter, cent_meter = AverageMeter(), AverageMeter()
    for data, labels in loader:
        data, labels = data.to(device), labels.to(device)
        features, outputs = model(data)
        loss_xent = criterion_xent(outputs, labels)
        loss_cent = criterion_cent(features, labels) * args.weight_cent
        loss = loss_xent + loss_cent
        opt_model.zero_grad()
        opt_cent.zero_grad()
        loss.backward()
        opt_model.step()
        for param in criterion_cent.parameters():
            param.grad.mul_(1.0 / args.weight_cent)
        opt_cent.step()
        xent_meter.update(loss_xent.item(), labels.size(0))
        cent_meter.update(loss_cent.item(), labels.size(0))
    return xent_meter.avg, cent_meter.avg


def main():
    parser = argparse.ArgumentParser("Center loss example")
    parser.add_argument("--classes", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--lr-model", type=float, default=0.01)
    parser.add_argument("--lr-cent", type=float, default=0.5)
    parser.add_argument("--weight-cent", type=float, default=0.1)
    args = parser.parse_args()
    torch.manual_seed(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(build_data(256, args.classes), batch_size=32, shuffle=True)
    model = ConvNet(args.classes, feat_dim=8).to(device)
    criterion_xent = nn.CrossEntropyLoss()
    criterion_cent = CenterLoss(args.classes, 8, device)
    opt_model = torch.optim.SGD(model.parameters(), lr=args.lr_model, momentum=0.9, weight_decay=5e-4)
    opt_cent = torch.optim.SGD(criterion_cent.parameters(), lr=args.lr_cent)
    for epoch in range(args.epochs):
        xent, cent = train(model, criterion_xent, criterion_cent, opt_model, opt_cent, loader, args, device)
        print(f"epoch {epoch} xent {xent:.4f} cent {cent:.4f}")


if __name__ == "__main__":
    main()
