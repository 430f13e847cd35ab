# target: script
# truth: The first backward() raises "one of the variables needed for gradient computation has been modified by an inplace operation": the gate, output of sigmoid (which saves its output for backward), is multiplied in place.
"""Kaggle credit-default: gated residual MLP on tabular features, K-fold CV (from my notebook)."""
import random

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class CFG:
    seed = 42
    n_folds = 3
    epochs = 2
    batch_size = 128
    lr = 2e-3
    hidden = 64
    n_blocks = 2


def seed_everything(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


class GatedBlock(nn.Module):
    def __init__(self, dim, p=0.1):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.gate = nn.Linear(dim, dim)
        self.value = nn.Linear(dim, dim)
        self.drop = nn.Dropout(p)

    def forward(self, x):
        h = self.norm(x)
        g = torch.sigmoid(self.gate(h))
        g *= self.value(h)  # error: DG101
        return x + self.drop(g)


class CreditNet(nn.Module):
    def __init__(self, n_features):
        super().__init__()
        self.stem = nn.Linear(n_features, CFG.hidden)
        self.blocks = nn.Sequential(*[GatedBlock(CFG.hidden) for _ in range(CFG.n_blocks)])
        self.out = nn.Linear(CFG.hidden, 1)

    def forward(self, x):
        return self.out(self.blocks(self.stem(x))).squeeze(1)


def run_fold(fold, X, y, trn_idx, val_idx):
    mean, std = X[trn_idx].mean(0), X[trn_idx].std(0)
    X = (X - mean) / std
    train_ds = TensorDataset(X[trn_idx], y[trn_idx])
    loader = DataLoader(train_ds, batch_size=CFG.batch_size, shuffle=True)
    model = CreditNet(X.shape[1])
    optimizer = torch.optim.AdamW(model.parameters(), lr=CFG.lr)
    criterion = nn.BCEWithLogitsLoss()
    for epoch in range(CFG.epochs):
        model.train()
        for xb, yb in loader:
            loss = criterion(model(xb), yb)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    model.eval()
    with torch.no_grad():
        val_logits = model(X[val_idx])
        val_loss = criterion(val_logits, y[val_idx]).item()
    print(f"fold {fold}: val logloss {val_loss:.4f}")
    return torch.sigmoid(val_logits)


if __name__ == "__main__":
    seed_everything(CFG.seed)
    X = torch.randn(1500, 24) * torch.rand(24) * 10
    y = ((X[:, 0] / X[:, 0].std() + 0.5 * torch.randn(1500)) > 0.8).float()
    folds = np.array_split(np.random.permutation(len(X)), CFG.n_folds)
    oof = torch.zeros(len(X))
    for k, val_idx in enumerate(folds):
        trn_idx = np.concatenate([f for j, f in enumerate(folds) if j != k])
        oof[val_idx] = run_fold(k, X, y, torch.from_numpy(trn_idx), torch.from_numpy(val_idx))
    acc = ((oof > 0.5).float() == y).float().mean().item()
    print(f"OOF accuracy {acc:.4f}")
