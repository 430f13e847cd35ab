# target: ClaimsScorer.evaluate
# truth: evaluate collects the scores as tensors on the device and RankMetrics.update hands them to np.asarray; with CUDA: TypeError "can't convert cuda:0 device type tensor to numpy".
"""Scoring of insurance claims with rank based metrics."""
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class RankMetrics:
    def __init__(self):
        self.reset()

    def reset(self):
        self.scores, self.labels = [], []

    def update(self, scores, labels):
        self.scores.append(np.asarray(scores))  # error: DG207
        self.labels.append(np.asarray(labels))

    def compute(self):
        scores = np.concatenate(self.scores)
        labels = np.concatenate(self.labels).astype(bool)
        order = scores.argsort(kind="stable")
        rank = np.empty(len(scores))
        rank[order] = np.arange(1, len(scores) + 1)
        pos, neg = labels.sum(), (~labels).sum()
        auc = (rank[labels].sum() - pos * (pos + 1) / 2) / max(pos * neg, 1)
        top = order[::-1][: max(1, len(order) // 20)]
        return {"auc": float(auc), "precision_at_5pct": float(labels[top].mean())}


class ClaimNet(nn.Module):
    def __init__(self, numeric=12, codes=50):
        super().__init__()
        self.code = nn.Embedding(codes, 8)
        self.body = nn.Sequential(nn.Linear(numeric + 8, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, numeric, code):
        return self.body(torch.cat([numeric, self.code(code)], dim=1)).squeeze(1)


def claims(n=1500, seed=0):
    g = torch.Generator().manual_seed(seed)
    numeric = torch.randn(n, 12, generator=g)
    code = torch.randint(0, 50, (n,), generator=g)
    odds = numeric[:, 0] + 0.5 * numeric[:, 3] * numeric[:, 4] - 2.5
    label = (torch.rand(n, generator=g) < torch.sigmoid(odds)).long()
    return TensorDataset(numeric, code, label)


class ClaimsScorer:
    def __init__(self):
        torch.manual_seed(0)
        self.net = ClaimNet().to(DEVICE)
        self.metrics = RankMetrics()
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=5e-3)

    def fit(self, epochs=3):
        self.net.train()
        for _ in range(epochs):
            for numeric, code, label in DataLoader(claims(), batch_size=128, shuffle=True):
                logit = self.net(numeric.to(DEVICE), code.to(DEVICE))
                target = label.to(DEVICE, torch.float32)
                loss = nn.functional.binary_cross_entropy_with_logits(logit, target)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
        return self

    @torch.no_grad()
    def evaluate(self):
        self.net.eval()
        self.metrics.reset()
        for numeric, code, label in DataLoader(claims(seed=1), batch_size=256):
            score = torch.sigmoid(self.net(numeric.to(DEVICE), code.to(DEVICE)))
            self.metrics.update(score, label)
        return self.metrics.compute()


if __name__ == "__main__":
    print(ClaimsScorer().fit().evaluate())
