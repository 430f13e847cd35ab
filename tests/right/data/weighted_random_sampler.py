"""Oversample rare classes by a WeightedRandomSampler with a generator of its own."""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, WeightedRandomSampler


class RareEvents(Dataset):
    def __init__(self, n=400, rare=0.05, seed=0):
        g = torch.Generator().manual_seed(seed)
        self.labels = (torch.rand(n, generator=g) < rare).long()
        self.features = torch.randn(n, 4, generator=g) + self.labels.unsqueeze(1) * 1.5

    def __len__(self):
        return self.labels.numel()

    def __getitem__(self, i):
        return self.features[i], self.labels[i]


def balanced_sampler(labels, seed):
    counts = torch.bincount(labels).clamp(min=1)
    weights = (1.0 / counts.double())[labels]
    return WeightedRandomSampler(weights, num_samples=labels.numel(), replacement=True, generator=torch.Generator().manual_seed(seed))


def recall(pred, truth):
    positives = truth == 1
    return ((pred == 1) & positives).sum() / positives.sum().clamp(min=1)


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train, test = RareEvents(), RareEvents(seed=1)
    loader = DataLoader(train, batch_size=50, sampler=balanced_sampler(train.labels, seed=2))
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2)).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    for epoch in range(6):
        model.train()
        share = torch.zeros((), device=device)
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            opt.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            opt.step()
            share += y.float().mean()
        if epoch % 3 == 0:
            print(f"epoch {epoch}: share of rare items in batches {share.item() / len(loader):.2f}")
    model.eval()
    with torch.no_grad():
        pred = model(test.features.to(device)).argmax(dim=1).cpu()
    print(f"recall of the rare class {recall(pred, test.labels).item():.2f}")


if __name__ == "__main__":
    main()
