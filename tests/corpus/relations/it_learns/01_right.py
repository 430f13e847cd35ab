"""Fine-tune a pretrained backbone on a new label set."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class SmallResNet(nn.Module):
    def __init__(self, classes, width=16):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, padding=1)
        self.conv1 = nn.Conv2d(width, width, 3, padding=1)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1)
        self.fc = nn.Linear(width, classes)

    def forward(self, x):
        h = F.relu(self.stem(x))
        h = h + self.conv2(F.relu(self.conv1(h)))
        return self.fc(F.relu(h).mean(dim=(2, 3)))


def finetune(model, classes, batches, lr=0.05):
    for p in model.parameters():
        p.requires_grad = False
    model.fc = nn.Linear(model.fc.in_features, classes)
    optimizer = torch.optim.Adam(model.fc.parameters(), lr=lr)

    losses = []
    for images, labels in batches:
        loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def main():
    torch.manual_seed(0)
    images = torch.rand(24, 3, 12, 12)
    labels = torch.arange(24) % 3
    images[torch.arange(24), labels] += 1.0
    losses = finetune(SmallResNet(100), 3, [(images, labels)] * 30)
    for i in range(0, len(losses), 10):
        print(f"step {i:3d} loss {losses[i]:.4f}")


if __name__ == "__main__":
    main()
