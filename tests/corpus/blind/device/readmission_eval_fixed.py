# target: script
"""Hospital readmission risk: train, then report AUC and Brier score on the hold-out set."""
import argparse

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split


class RiskModel(nn.Module):
    def __init__(self, n_numeric: int, n_codes: int, dim: int = 16):
        super().__init__()
        self.codes = nn.EmbeddingBag(n_codes, dim, mode="sum")
        self.net = nn.Sequential(nn.Linear(n_numeric + dim, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 1))

    def forward(self, numeric, codes):
        return self.net(torch.cat([numeric, self.codes(codes)], dim=1)).squeeze(1)


def make_dataset(n, n_numeric, n_codes):
    numeric = torch.randn(n, n_numeric)
    codes = torch.randint(0, n_codes, (n, 5))
    risk = numeric[:, 0] - 0.5 * numeric[:, 1] + (codes < 10).sum(1) - 0.5
    return TensorDataset(numeric, codes, torch.bernoulli(torch.sigmoid(risk)))


def auc(y, score):
    order = np.argsort(score)
    ranks = np.empty(len(score))
    ranks[order] = np.arange(1, len(score) + 1)
    n_pos = y.sum()
    n_neg = len(y) - n_pos
    return (ranks[y == 1].sum() - n_pos * (n_pos + 1) / 2) / (n_pos * n_neg)


def train_epoch(model, loader, optimizer, device):
    model.train()
    for numeric, codes, y in loader:
        numeric, codes, y = numeric.to(device), codes.to(device), y.to(device)
        loss = nn.functional.binary_cross_entropy_with_logits(model(numeric, codes), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@torch.no_grad()
def evaluate(model, loader, device):
    model.eval()
    scores, targets = [], []
    for numeric, codes, y in loader:
        logits = model(numeric.to(device), codes.to(device))
        scores.append(torch.sigmoid(logits).cpu().numpy())
        targets.append(y.numpy())
    scores, targets = np.concatenate(scores), np.concatenate(targets)
    return {"auc": auc(targets, scores), "brier": float(np.mean((scores - targets) ** 2))}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--cpu", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    use_cuda = torch.cuda.is_available() and not args.cpu
    device = torch.device("cuda" if use_cuda else "cpu")

    train_set, test_set = random_split(make_dataset(2000, 10, 100), [1600, 400])
    train_loader = DataLoader(train_set, args.batch_size, shuffle=True)
    test_loader = DataLoader(test_set, args.batch_size)
    model = RiskModel(10, 100).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(args.epochs):
        train_epoch(model, train_loader, optimizer, device)
        metrics = evaluate(model, test_loader, device)
        print(f"epoch {epoch}: " + " ".join(f"{k}={v:.4f}" for k, v in metrics.items()))


if __name__ == "__main__":
    main()
