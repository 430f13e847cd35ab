# target: train
# truth: The model returns (N, 1), the labels are (N,): "Target size (torch.Size([16])) must be the same as input size
#   (torch.Size([16, 1]))". The model's output is to be squeezed.
"""Churn prediction on tabular data with entity embeddings."""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


class ChurnNet(nn.Module):
    def __init__(self, cardinalities, continuous, width=32):
        super().__init__()
        self.embeddings = nn.ModuleList([nn.Embedding(c, min(16, (c + 1) // 2)) for c in cardinalities])
        total = sum(e.embedding_dim for e in self.embeddings) + continuous
        self.body = nn.Sequential(nn.Linear(total, width), nn.ReLU(), nn.BatchNorm1d(width), nn.Linear(width, 1))

    def forward(self, categories, numbers):
        embedded = [e(categories[:, i]) for i, e in enumerate(self.embeddings)]
        return self.body(torch.cat([*embedded, numbers], dim=1))


def train(model, loader, epochs=2, lr=1e-3):
    criterion = nn.BCEWithLogitsLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    for _ in range(epochs):
        for categories, numbers, churned in loader:
            logits = model(categories, numbers)
            loss = criterion(logits, churned)  # error: DG301
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return model


if __name__ == "__main__":
    cardinalities = (7, 12, 31)
    categories = torch.stack([torch.randint(0, c, (64,)) for c in cardinalities], dim=1)
    dataset = TensorDataset(categories, torch.randn(64, 5), torch.randint(0, 2, (64,)).float())
    train(ChurnNet(cardinalities, 5), DataLoader(dataset, batch_size=16, shuffle=True))
