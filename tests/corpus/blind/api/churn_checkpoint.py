# target: script
# truth: The AUC is a numpy.float64 scalar and is pickled into the checkpoint; torch.load, whose default is
#   weights_only=True since 2.6, refuses it after the whole training: "_pickle.UnpicklingError: Weights only load
#   failed. ... WeightsUnpickler error: Unsupported global: GLOBAL numpy._core.multiarray.scalar was not an allowed
#   global by default."
"""Churn prediction from tabular features: train, keep the best epoch on disk, report on the test part."""
import os
import tempfile

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def make_customers(n, seed):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n, 8)).astype(np.float32)
    risk = features[:, 0] - 0.5 * features[:, 3] + 0.5 * rng.normal(size=n)
    churned = (risk > 0.8).astype(np.float32)
    return TensorDataset(torch.from_numpy(features), torch.from_numpy(churned))


def rank_auc(scores, labels):
    """Area under the ROC curve from ranks (continuous scores, so no ties)."""
    ranks = np.empty(len(scores))
    ranks[np.argsort(scores)] = np.arange(1, len(scores) + 1)
    positive = labels > 0.5
    n_pos, n_neg = positive.sum(), (~positive).sum()
    return (ranks[positive].sum() - n_pos * (n_pos + 1) / 2) / (n_pos * n_neg)


@torch.no_grad()
def evaluate(model, dataset, device):
    model.eval()
    features, labels = dataset.tensors
    logits = model(features.to(device)).squeeze(-1)
    return rank_auc(logits.cpu().numpy(), labels.numpy())


def build_model():
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 1))


def train(path, device, epochs=4):
    train_set, valid_set = make_customers(800, seed=0), make_customers(300, seed=1)
    model = build_model().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    criterion = nn.BCEWithLogitsLoss()
    best = 0.0
    for epoch in range(epochs):
        model.train()
        for x, y in DataLoader(train_set, batch_size=50, shuffle=True):
            loss = criterion(model(x.to(device)).squeeze(-1), y.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        auc = evaluate(model, valid_set, device)
        print(f"epoch {epoch}: validation AUC {auc:.4f}")
        if auc > best:
            best = auc
            torch.save({
                "epoch": epoch,
                "valid_auc": auc,  # error: DG907|DG805
                "model": model.state_dict(),
            }, path)


def report(path, device):
    checkpoint = torch.load(path, map_location=device)
    model = build_model().to(device)
    model.load_state_dict(checkpoint["model"])
    auc = evaluate(model, make_customers(300, seed=2), device)
    print(f"epoch {checkpoint['epoch']}: valid {checkpoint['valid_auc']:.4f} test {auc:.4f}")


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "best.pt")
        train(path, device)
        report(path, device)


if __name__ == "__main__":
    main()
