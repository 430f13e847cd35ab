"""Class weights computed from counts for an imbalanced problem, checked by balanced accuracy."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def inverse_frequency(labels: torch.Tensor, n_classes: int) -> torch.Tensor:
    counts = torch.bincount(labels, minlength=n_classes).float()
    weights = counts.sum() / (n_classes * counts.clamp_min(1.0))
    return weights


def imbalanced(n, seed):
    g = torch.Generator().manual_seed(seed)
    y = (torch.rand(n, generator=g) < 0.08).long()
    x = torch.randn(n, 5, generator=g)
    x[y == 1] += 1.2
    return x, y


def balanced_accuracy(pred, y, n_classes):
    hits = torch.zeros(n_classes, device=y.device).index_add_(0, y, (pred == y).float())
    support = torch.bincount(y, minlength=n_classes)
    present = support > 0
    return (hits[present] / support[present]).mean()


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    x, y = imbalanced(800, seed=1)
    x_test, y_test = (t.to(device) for t in imbalanced(400, seed=2))
    mean, std = x.mean(0), x.std(0).clamp_min(1e-6)
    weights = inverse_frequency(y, 2)
    print("class weights", [round(w, 3) for w in weights.tolist()])

    loader = DataLoader(TensorDataset((x - mean) / std, y), batch_size=64, shuffle=True)
    clf = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 2)).to(device)
    loss_fn = nn.CrossEntropyLoss(weight=weights.to(device))
    opt = torch.optim.Adam(clf.parameters(), lr=1e-2)
    for _ in range(8):
        clf.train()
        for xb, yb in loader:
            xb, yb = xb.to(device), yb.to(device)
            opt.zero_grad()
            loss_fn(clf(xb), yb).backward()
            opt.step()

    clf.eval()
    with torch.no_grad():
        normalized = (x_test - mean.to(device)) / std.to(device)
        pred = clf(normalized).argmax(dim=1)
    print(f"balanced accuracy {balanced_accuracy(pred, y_test, 2).item():.3f}")


if __name__ == "__main__":
    main()
