# target: separation
# truth: Every call registers another forward hook and never removes it; the old hooks keep copying the features of all
#   later forwards (training batches included) into their lists, so memory grows without bound and each epoch gets
#   slower.
"""Glyph classifier with a per-epoch probe of how well its features separate classes."""
import torch
import torch.nn.functional as F
from torch import nn


class GlyphNet(nn.Module):
    def __init__(self, n_classes, width=8):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 3, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        )
        self.head = nn.Linear(2 * width, n_classes)

    def forward(self, x):
        return self.head(self.backbone(x))


def gather_features(model, loader, device):
    """Backbone outputs and labels for everything in loader, on the CPU."""
    chunks, labels = [], []

    def keep(module, args, output):
        chunks.append(output.detach().cpu())

    model.backbone.register_forward_hook(keep)  # error: DG510
    model.eval()
    with torch.no_grad():
        for x, y in loader:
            model(x.to(device))
            labels.append(y)
    return torch.cat(chunks), torch.cat(labels)


def separation(model, loader, device):
    """Between-class over within-class scatter of the backbone features."""
    feats, labels = gather_features(model, loader, device)
    overall = feats.mean(dim=0)
    between, within = 0.0, 0.0
    for c in labels.unique():
        group = feats[labels == c]
        centre = group.mean(dim=0)
        between += len(group) * (centre - overall).pow(2).sum().item()
        within += (group - centre).pow(2).sum().item()
    return between / max(within, 1e-12)


def train(model, train_loader, valid_loader, device, epochs=20, lr=1e-3):
    model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    curve = []
    for _ in range(epochs):
        model.train()
        for x, y in train_loader:
            loss = F.cross_entropy(model(x.to(device)), y.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        curve.append(separation(model, valid_loader, device))
    return curve
