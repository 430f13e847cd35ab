# source: https://discuss.pytorch.org/t/why-there-is-still-a-small-change-in-frozen-layer-parameters/153740
# target: script
# truth: freezing only clears requires_grad; the old .grad stays (zeroed, not None), so the optimizer still updates
#   the frozen layers with momentum and weight decay and they drift during the second stage
from collections.abc import Iterable

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(3)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class SensorNet(nn.Module):
    def __init__(self, n_in=10, n_cls=4):
        super().__init__()
        self.fc1 = nn.Sequential(nn.Linear(n_in, 32), nn.ReLU())
        self.fc2 = nn.Sequential(nn.Linear(32, 32), nn.ReLU())
        self.out = nn.Linear(32, n_cls)

    def forward(self, x):
        return self.out(self.fc2(self.fc1(x)))


def set_freeze_by_layer_names(model, layer_names, freeze=True):
    if not isinstance(layer_names, Iterable) or isinstance(layer_names, str):
        layer_names = [layer_names]
    for name, child in model.named_children():
        if name not in layer_names:
            continue
        for param in child.parameters():
            param.requires_grad = not freeze  # culprit


def freeze_by_names(model, *layer_names):
    set_freeze_by_layer_names(model, layer_names, True)


def unfreeze_by_names(model, *layer_names):
    set_freeze_by_layer_names(model, layer_names, False)


def make_loader(shift, n=256):
    x = torch.randn(n, 10) + shift
    y = (x[:, 0] > shift).long() * 2 + (x[:, 1] > shift).long()
    return DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)


def accuracy(model, loader):
    model.eval()
    with torch.no_grad():
        hits = sum((model(x.to(device)).argmax(1) == y.to(device)).sum().item() for x, y in loader)
    return hits / len(loader.dataset)


def train(model, loader, optimizer, epochs):
    criterion = nn.CrossEntropyLoss()
    for _ in range(epochs):
        model.train()
        for x, y in loader:
            optimizer.zero_grad(set_to_none=False)
            loss = criterion(model(x.to(device)), y.to(device))
            loss.backward()
            optimizer.step()
    return loss.item()


if __name__ == "__main__":
    model = SensorNet().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-3)

    source, target = make_loader(0.0), make_loader(0.5)
    train(model, source, optimizer, epochs=4)
    print("source accuracy", accuracy(model, source))

    freeze_by_names(model, "fc1", "fc2")
    before = model.fc1[0].weight[0, :5].tolist()
    train(model, target, optimizer, epochs=4)
    after = model.fc1[0].weight[0, :5].tolist()
    print("target accuracy", accuracy(model, target))
    print("fc1 before", [round(v, 4) for v in before])
    print("fc1 after ", [round(v, 4) for v in after])

    unfreeze_by_names(model, "fc1", "fc2")
    train(model, target, optimizer, epochs=1)
    print("final accuracy", accuracy(model, target))
