"""K-fold cross-validation with a fresh model per fold and statistics from the training part only."""
import torch
from torch import nn

K = 4
torch.manual_seed(100)
dev = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def dataset(n=200):
    x = torch.randn(n, 7) * torch.tensor([1.0, 5.0, 0.1, 1.0, 2.0, 1.0, 3.0]) + 2
    y = (x[:, 0] - 10 * x[:, 2] + 0.3 * torch.randn(n)).unsqueeze(1)
    return x, y


def folds(n, k):
    order = torch.randperm(n)
    chunks = order.tensor_split(k)
    for i in range(k):
        rest = torch.cat([c for j, c in enumerate(chunks) if j != i])
        yield rest, chunks[i]


class Standardize(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.register_buffer("mean", torch.zeros(n))
        self.register_buffer("std", torch.ones(n))

    def fit(self, x):
        self.mean.copy_(x.mean(dim=0))
        self.std.copy_(x.std(dim=0).clamp(min=1e-6))

    def forward(self, x):
        return (x - self.mean) / self.std


def fit_fold(x, y, train_idx, val_idx):
    scaler = Standardize(x.size(1))
    scaler.fit(x[train_idx])
    model = nn.Sequential(scaler, nn.Linear(x.size(1), 16), nn.ReLU(), nn.Linear(16, 1)).to(dev)
    opt = torch.optim.Adam(model.parameters(), lr=5e-2)
    xt, yt, xv, yv = x[train_idx].to(dev), y[train_idx].to(dev), x[val_idx].to(dev), y[val_idx].to(dev)
    model.train()
    for _ in range(300):
        opt.zero_grad()
        nn.functional.l1_loss(model(xt), yt).backward()
        opt.step()
    model.eval()
    with torch.no_grad():
        return nn.functional.l1_loss(model(xv), yv).item()


x, y = dataset()
scores = []
for fold, (tr, va) in enumerate(folds(len(x), K)):
    scores.append(fit_fold(x, y, tr, va))
    print(f"fold {fold}: validation MAE {scores[-1]:.3f}")
print(f"mean {sum(scores) / len(scores):.3f}")
