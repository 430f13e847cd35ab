# target: script
"""Two-layer GCN on a synthetic citation graph."""
import numpy as np
import torch
from torch import nn
import torch.nn.functional as F


def make_graph(n: int = 400, classes: int = 4, dim: int = 32, seed: int = 0):
    """Stochastic block model with noisy class-dependent features."""
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, classes, (n,), generator=g)
    prob = torch.where(y[:, None] == y[None, :], 0.06, 0.005)
    upper = (torch.rand(n, n, generator=g) < prob).float().triu(1)
    adj = upper + upper.T + torch.eye(n)
    centers = torch.randn(classes, dim, generator=g)
    x = centers[y] + 2.0 * torch.randn(n, dim, generator=g)
    order = torch.randperm(n, generator=g)
    return x, adj, y, order[: n // 4], order[n // 2:]


def normalize(adj: torch.Tensor) -> torch.Tensor:
    d = adj.sum(1).rsqrt()
    return d[:, None] * adj * d[None, :]


class GCN(nn.Module):
    def __init__(self, dim: int, hidden: int, classes: int, dropout: float = 0.5):
        super().__init__()
        self.lin1 = nn.Linear(dim, hidden)
        self.lin2 = nn.Linear(hidden, classes)
        self.dropout = dropout

    def forward(self, x, a_hat):
        h = F.relu(a_hat @ self.lin1(x))
        h = F.dropout(h, self.dropout, training=self.training)
        return a_hat @ self.lin2(h)


def per_class_f1(pred: torch.Tensor, target: torch.Tensor, classes: int) -> np.ndarray:
    pred, target = pred.cpu().numpy(), target.cpu().numpy()
    scores = np.zeros(classes)
    for c in range(classes):
        tp = np.sum((pred == c) & (target == c))
        denom = np.sum(pred == c) + np.sum(target == c)
        scores[c] = 2 * tp / denom if denom else 0.0
    return scores


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    x, adj, y, train_idx, test_idx = (t.to(device) for t in make_graph())
    a_hat = normalize(adj)
    model = GCN(x.size(1), 32, 4).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)

    for epoch in range(60):
        model.train()
        loss = F.cross_entropy(model(x, a_hat)[train_idx], y[train_idx])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if (epoch + 1) % 20 == 0:
            model.eval()
            with torch.no_grad():
                pred = model(x, a_hat)[test_idx].argmax(dim=1)
            f1 = per_class_f1(pred, y[test_idx], classes=4)
            print(f"epoch {epoch + 1}: loss {loss.item():.3f} macro-F1 {f1.mean():.3f}")


if __name__ == "__main__":
    main()
