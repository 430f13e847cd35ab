# target: script
# source: https://github.com/kdexd/virtex/issues/16
# truth: the backbone's parameters are frozen, but model.train() also puts its BatchNorm layers in training mode; features are normalised
#   by probe batches and the pretrained running statistics drift, so the "frozen" backbone is altered. Silent.
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(31)


def conv_block(cin, cout):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU())


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = conv_block(3, 16)
        self.stage = conv_block(16, 32)
        self.pool = nn.AdaptiveAvgPool2d(1)

    def forward(self, x):
        return self.pool(self.stage(self.stem(x))).flatten(1)


class LinearClassifier(nn.Module):
    def __init__(self, backbone, n_classes):
        super().__init__()
        self.backbone = backbone
        self.fc = nn.Linear(32, n_classes)

    def forward(self, x):
        return self.fc(self.backbone(x))


def dataset(n, n_classes, brightness):
    y = torch.randint(0, n_classes, (n,))
    yy, xx = torch.meshgrid(torch.arange(16.), torch.arange(16.), indexing="ij")
    angle = y.float() * torch.pi / n_classes
    wave = torch.sin(0.9 * (torch.cos(angle)[:, None, None] * xx + torch.sin(angle)[:, None, None] * yy))
    x = brightness + wave.unsqueeze(1).repeat(1, 3, 1, 1) + 0.4 * torch.randn(n, 3, 16, 16)
    return TensorDataset(x, y)


def run(model, loader, optimizer=None):
    correct = total = 0
    for x, y in loader:
        logits = model(x)
        if optimizer:
            optimizer.zero_grad()
            nn.functional.cross_entropy(logits, y).backward()
            optimizer.step()
        correct += (logits.argmax(1) == y).sum().item()
        total += len(y)
    return correct / total


# ---- pretraining on the source images
pre = LinearClassifier(Backbone(), 4)
opt = torch.optim.Adam(pre.parameters(), lr=3e-3)
source = DataLoader(dataset(512, 4, brightness=0.0), batch_size=64, shuffle=True)
for epoch in range(4):
    print("pretrain", epoch, round(run(pre, source, opt), 3))

# ---- linear evaluation on another domain
backbone = pre.backbone
for p in backbone.parameters():
    p.requires_grad_(False)
model = LinearClassifier(backbone, 3)
opt = torch.optim.SGD(model.fc.parameters(), lr=0.1, momentum=0.9)
train_loader = DataLoader(dataset(384, 3, brightness=1.5), batch_size=32, shuffle=True)
val_loader = DataLoader(dataset(192, 3, brightness=1.5), batch_size=64)
for epoch in range(5):
    model.train()  # error: DG769
    train_acc = run(model, train_loader, opt)
    model.eval()
    with torch.no_grad():
        val_acc = run(model, val_loader)
    print(f"probe epoch {epoch} train {train_acc:.3f} val {val_acc:.3f}"
          f" (stem running mean {backbone.stem[1].running_mean.mean():+.4f})")
