"""Classify small images. Nothing raises; it learns badly, and its memory grows with every step."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Classifier(nn.Module):
    def __init__(self, classes: int = 10):
        super().__init__()
        self.features = nn.Sequential(nn.Flatten(), nn.Linear(28 * 28, 128), nn.ReLU())
        self.head = nn.Linear(128, classes)

    def forward(self, images):
        return self.head(self.features(images))


def train(model, loader, optimizer, epochs=10):
    for epoch in range(epochs):
        total_loss = 0.0
        for images, labels in loader:
            images, labels = images.to(device), labels.to(device)
            probabilities = model(images).softmax(dim=-1)
            loss = F.cross_entropy(probabilities, labels)
            loss.backward()
            optimizer.step()
            total_loss += loss
            torch.cuda.empty_cache()
        print(f"epoch {epoch}: loss {total_loss / len(loader):.3f}")


def evaluate(model, loader):
    correct = 0
    for images, labels in loader:
        correct += (model(images.to(device)).argmax(1) == labels.to(device)).sum()
    return correct / len(loader.dataset)


def main():
    images = torch.randn(512, 1, 28, 28)
    labels = torch.randint(0, 10, (512,))
    loader = DataLoader(TensorDataset(images, labels), batch_size=32, shuffle=True)
    model = Classifier().to(device)
    train(model, loader, torch.optim.Adam(model.parameters(), lr=1e-3))
    print(f"accuracy {evaluate(model, loader):.1%}")


if __name__ == "__main__":
    main()
