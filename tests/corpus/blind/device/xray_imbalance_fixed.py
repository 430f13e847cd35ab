# target: script
"""Chest X-ray triage with inverse-frequency class weights."""
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

DEVICE = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
CLASSES = ["normal", "bacterial", "viral"]
EPOCHS = 2


def load_data(n=96):
    images = torch.randn(n, 1, 32, 32)
    labels = torch.multinomial(torch.tensor([0.7, 0.2, 0.1]), n, replacement=True)
    labels[:3] = torch.arange(3)
    return TensorDataset(images, labels)


def build_model():
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Dropout(0.2), nn.Linear(16 * 8 * 8, len(CLASSES)),
    )


def class_weights(labels):
    counts = torch.bincount(labels, minlength=len(CLASSES)).float()
    return counts.sum() / (len(CLASSES) * counts)


def run_epoch(model, loader, criterion, optimizer):
    model.train()
    running, seen = 0.0, 0
    for images, labels in loader:
        images = images.to(DEVICE, non_blocking=True)
        labels = labels.to(DEVICE, non_blocking=True)
        optimizer.zero_grad()
        loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()
        running += loss.item() * images.size(0)  # allowed: DG601 (a sync in each step, which a run measures)
        seen += images.size(0)
    return running / seen


if __name__ == "__main__":
    torch.manual_seed(13)
    dataset = load_data()
    loader = DataLoader(dataset, batch_size=16, shuffle=True)
    model = build_model().to(DEVICE)
    weights = class_weights(dataset.tensors[1])
    criterion = nn.CrossEntropyLoss(weight=weights.to(DEVICE))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(EPOCHS):
        print(f"epoch {epoch + 1}/{EPOCHS} loss {run_epoch(model, loader, criterion, optimizer):.4f}")
