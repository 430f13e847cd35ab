# target: main
"""Cancer subtype prediction from gene expression profiles."""
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


class ExpressionDataset(Dataset):
    """Samples are log counts, standardised per gene."""

    def __init__(self, counts: torch.Tensor, subtype: torch.Tensor):
        self.subtype = subtype
        log_counts = torch.log1p(counts)
        self.expression = (log_counts - log_counts.mean(0)) / (log_counts.std(0) + 1e-6)

    def __len__(self):
        return len(self.subtype)

    def __getitem__(self, idx):
        return self.expression[idx], self.subtype[idx]


class SubtypeNet(nn.Module):
    def __init__(self, n_genes, n_subtypes, hidden=64):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(n_genes, hidden), nn.BatchNorm1d(hidden), nn.ReLU(), nn.Dropout(0.5),
            nn.Linear(hidden, n_subtypes),
        )

    def forward(self, x):
        return self.layers(x)


def simulate_cohort(n_samples=320, n_genes=2000, n_subtypes=5):
    subtype = torch.randint(0, n_subtypes, (n_samples,))
    rate = 5 + 20 * torch.rand(n_subtypes, n_genes)
    return torch.poisson(rate[subtype]), subtype


def main(epochs: int = 1):
    torch.manual_seed(21)
    counts, subtype = simulate_cohort()
    loader = DataLoader(ExpressionDataset(counts, subtype), batch_size=32, shuffle=True)
    model = SubtypeNet(counts.size(1), 5)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=1e-4)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(epochs):
        correct = 0
        for x, y in loader:
            logits = model(x)
            loss = criterion(logits, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            correct += (logits.argmax(1) == y).sum().item()
        print(f"epoch {epoch}: train accuracy {correct / len(subtype):.3f}")
    return model


if __name__ == "__main__":
    main()
