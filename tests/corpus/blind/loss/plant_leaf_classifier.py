# target: main
# truth: LeafNet.forward ends in a softmax while CrossEntropyLoss expects raw logits, so softmax is applied twice; with four classes the loss cannot fall below 0.74 and training is several times slower, without any error.
"""Leaf disease classifier on small RGB crops."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset, random_split

N_CLASSES = 4


class LeafNet(nn.Module):
    def __init__(self, n_classes: int = N_CLASSES):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, padding=1)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.fc1 = nn.Linear(32 * 4 * 4, 64)
        self.fc2 = nn.Linear(64, n_classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = F.relu(self.fc1(torch.flatten(x, 1)))
        return F.softmax(self.fc2(x), dim=1)  # error: DG304


def make_dataset(n: int = 400, size: int = 16) -> TensorDataset:
    labels = torch.arange(n) % N_CLASSES
    prototypes = torch.randn(N_CLASSES, 3, size, size)
    images = 0.5 * prototypes[labels] + torch.randn(n, 3, size, size)
    return TensorDataset(images, labels)


def accuracy(model, loader):
    model.eval()
    correct = total = 0
    with torch.no_grad():
        for x, y in loader:
            correct += (model(x).argmax(dim=1) == y).sum().item()
            total += y.size(0)
    return correct / total


def main(epochs: int = 3, lr: float = 0.01):
    torch.manual_seed(7)
    dataset = make_dataset()
    train_set, val_set = random_split(dataset, [320, 80])
    train_loader = DataLoader(train_set, batch_size=32, shuffle=True)
    val_loader = DataLoader(val_set, batch_size=80)
    model = LeafNet()
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    for epoch in range(epochs):
        model.train()
        running = 0.0
        for x, y in train_loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
            running += loss.item() * y.size(0)
        print(f"epoch {epoch}: loss {running / len(train_set):.3f} val acc {accuracy(model, val_loader):.3f}")
    return model


if __name__ == "__main__":
    main()
