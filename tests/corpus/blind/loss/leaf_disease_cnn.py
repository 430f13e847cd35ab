# target: script
# truth: Silently wrong: the model already returns softmax probabilities and CrossEntropyLoss applies log_softmax again, so the loss can never fall below about 0.90 (5 classes), gradients are squashed and the net learns slowly.
"""Cassava-like leaf disease classification, 5 classes. Exported from a Kaggle notebook."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, random_split

CONFIG = {
    "classes": ["bacterial_blight", "brown_streak", "green_mottle", "mosaic", "healthy"],
    "image_size": 32,
    "batch_size": 32,
    "epochs": 4,
    "lr": 1e-3,
}


class LeafDataset(Dataset):
    """Synthetic leaves: the class decides which stripe of the image is bright."""

    def __init__(self, n, size, n_classes):
        g = torch.Generator().manual_seed(7)
        self.labels = torch.randint(0, n_classes, (n,), generator=g)
        self.images = torch.rand(n, 3, size, size, generator=g)
        width = size // n_classes
        for i, k in enumerate(self.labels.tolist()):
            self.images[i, 1, :, k * width:(k + 1) * width] += 0.7

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, idx):
        return self.images[idx] - 0.5, self.labels[idx]


class LeafNet(nn.Module):
    def __init__(self, n_classes):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, padding=1)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.fc1 = nn.Linear(32 * 8 * 8, 64)
        self.fc2 = nn.Linear(64, n_classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = F.relu(self.fc1(x.flatten(1)))
        return F.softmax(self.fc2(x), dim=1)  # error: DG304


def train_one_epoch(model, loader, optimizer, criterion):
    model.train()
    total = 0.0
    for images, labels in loader:
        optimizer.zero_grad()
        loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()
        total += loss.item() * len(labels)
    return total / len(loader.dataset)


@torch.no_grad()
def accuracy(model, loader):
    model.eval()
    hits = sum((model(x).argmax(1) == y).sum().item() for x, y in loader)
    return hits / len(loader.dataset)


torch.manual_seed(0)
n_classes = len(CONFIG["classes"])
dataset = LeafDataset(600, CONFIG["image_size"], n_classes)
train_ds, valid_ds = random_split(dataset, [480, 120])
train_loader = DataLoader(train_ds, batch_size=CONFIG["batch_size"], shuffle=True)
valid_loader = DataLoader(valid_ds, batch_size=CONFIG["batch_size"])

model = LeafNet(n_classes)
optimizer = torch.optim.Adam(model.parameters(), lr=CONFIG["lr"])
criterion = nn.CrossEntropyLoss()
for epoch in range(CONFIG["epochs"]):
    train_loss = train_one_epoch(model, train_loader, optimizer, criterion)
    print(f"epoch {epoch}: loss {train_loss:.4f}  valid acc {accuracy(model, valid_loader):.3f}")
