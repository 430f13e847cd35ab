# target: script
# truth: The model already ends in a softmax, but CrossEntropyLoss expects logits and applies log-softmax again: no error, but the
#   loss cannot fall below about 0.55 for three classes and gradients are damped, so training is slow and stalls.
"""Galaxy morphology classification (elliptical / spiral / irregular) on synthetic cut-outs."""
import torch
import torch.nn as nn
import torch.optim as optim
from torch.utils.data import DataLoader, TensorDataset

CLASSES = ["elliptical", "spiral", "irregular"]


class GalaxyNet(nn.Module):
    def __init__(self, n_classes):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(2),
        )
        self.fc1 = nn.Linear(32 * 4, 64)
        self.fc2 = nn.Linear(64, n_classes)

    def forward(self, x):
        x = self.features(x)
        x = torch.flatten(x, 1)
        x = torch.relu(self.fc1(x))
        return torch.softmax(self.fc2(x), dim=1)  # error: DG304


def synthetic_galaxies(n, size=24):
    yy, xx = torch.meshgrid(torch.linspace(-1, 1, size), torch.linspace(-1, 1, size), indexing="ij")
    labels = torch.randint(0, 3, (n,))
    radius = torch.sqrt(xx**2 + yy**2)
    angle = torch.atan2(yy, xx)
    shapes = torch.stack([torch.exp(-4 * radius**2), torch.cos(6 * radius + 2 * angle).clamp(min=0), torch.rand(size, size)])
    return shapes[labels].unsqueeze(1) + 0.1 * torch.randn(n, 1, size, size), labels


def accuracy(net, loader):
    net.eval()
    hits = total = 0
    with torch.no_grad():
        for x, y in loader:
            hits += (net(x).argmax(1) == y).sum().item()
            total += y.numel()
    net.train()
    return hits / total


torch.manual_seed(0)
train_loader = DataLoader(TensorDataset(*synthetic_galaxies(256)), batch_size=32, shuffle=True)
test_loader = DataLoader(TensorDataset(*synthetic_galaxies(64)), batch_size=64)

net = GalaxyNet(len(CLASSES))
criterion = nn.CrossEntropyLoss()
optimizer = optim.SGD(net.parameters(), lr=0.05, momentum=0.9)

for epoch in range(5):
    running_loss = 0.0
    for images, labels in train_loader:
        optimizer.zero_grad()
        loss = criterion(net(images), labels)
        loss.backward()
        optimizer.step()
        running_loss += loss.item()
    print(f"[{epoch}] loss {running_loss / len(train_loader):.3f} acc {accuracy(net, test_loader):.2%}")
