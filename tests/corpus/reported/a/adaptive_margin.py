# source: https://github.com/4uiiurz1/pytorch-adacos/issues/10
# target: script
# truth: the class weights live in the margin head, whose parameters are not given to the optimizer: they get gradients
#   (never cleared) but never change, so only the backbone learns against random class directions
import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class FixedAdaCos(nn.Module):
    """Cosine softmax whose scale only depends on the number of classes."""

    def __init__(self, num_features, num_classes):
        super().__init__()
        self.s = math.sqrt(2) * math.log(num_classes - 1)
        self.W = nn.Parameter(torch.empty(num_classes, num_features))
        nn.init.xavier_uniform_(self.W)

    def forward(self, features, label=None):
        logits = F.linear(F.normalize(features), F.normalize(self.W))
        return logits if label is None else self.s * logits


class ArcFace(nn.Module):
    def __init__(self, num_features, num_classes, s=16.0, m=0.3):
        super().__init__()
        self.s = s
        self.m = m
        self.W = nn.Parameter(torch.empty(num_classes, num_features))
        nn.init.xavier_uniform_(self.W)

    def forward(self, features, label=None):
        logits = F.linear(F.normalize(features), F.normalize(self.W))
        if label is None:
            return logits
        theta = torch.acos(logits.clamp(-1.0 + 1e-4, 1.0 - 1e-4))
        one_hot = F.one_hot(label, logits.size(1)).to(logits.dtype)
        return self.s * (logits * (1 - one_hot) + torch.cos(theta + self.m) * one_hot)


class Backbone(nn.Module):
    def __init__(self, in_dim, num_features):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(in_dim, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, num_features), nn.BatchNorm1d(num_features)
        )

    def forward(self, x):
        return self.net(x)


HEADS = {"adacos": FixedAdaCos, "arcface": ArcFace}


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--metric", default="adacos", choices=sorted(HEADS))
    parser.add_argument("--num-features", default=8, type=int)
    parser.add_argument("--num-classes", default=20, type=int)
    parser.add_argument("--epochs", default=4, type=int)
    parser.add_argument("--lr", default=0.1, type=float)
    return parser.parse_args()


def train(args, batches, model, metric_fc, criterion, optimizer):
    model.train()
    metric_fc.train()
    total, seen, correct = 0.0, 0, 0
    for x, y in batches:
        feature = model(x)
        output = metric_fc(feature, y)
        loss = criterion(output, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * y.size(0)
        correct += (output.argmax(1) == y).sum().item()
        seen += y.size(0)
    return total / seen, correct / seen


def main():
    args = parse_args()
    torch.manual_seed(0)
    protos = torch.randn(args.num_classes, 16)
    batches = []
    for _ in range(20):
        y = torch.randint(0, args.num_classes, (64,))
        batches.append((protos[y] + 0.8 * torch.randn(64, 16), y))

    model = Backbone(16, args.num_features)
    metric_fc = HEADS[args.metric](args.num_features, args.num_classes)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, weight_decay=1e-4)  # culprit
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=args.epochs, eta_min=1e-3)
    start = metric_fc.W.detach().clone()
    for epoch in range(args.epochs):
        loss, acc = train(args, batches, model, metric_fc, criterion, optimizer)
        scheduler.step()
        print(f"epoch {epoch} loss {loss:.4f} acc {acc:.4f}")
    print(f"class weights moved by {(metric_fc.W.detach() - start).norm().item():.4f}")


if __name__ == "__main__":
    main()
