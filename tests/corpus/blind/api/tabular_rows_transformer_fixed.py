# target: TabularClassifier.forward
# source: https://github.com/IBM/TabFormer/pull/14
# truth: none, the repaired twin of tabular_rows_transformer.py
from __future__ import annotations

import torch
from torch import Tensor, nn


class FieldEmbedding(nn.Module):
    def __init__(self, cardinalities: list[int], dim: int):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(c, dim) for c in cardinalities)
        self.column = nn.Parameter(0.1 * torch.randn(len(cardinalities), dim))

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([t(x[:, i]) for i, t in enumerate(self.tables)], dim=1) + self.column


class TabularClassifier(nn.Module):
    """Field-level transformer over categorical transaction records."""

    def __init__(self, cardinalities: list[int], dim: int = 32, nhead: int = 4, layers: int = 2):
        super().__init__()
        self.fields = FieldEmbedding(cardinalities, dim)
        layer = nn.TransformerEncoderLayer(d_model=dim, nhead=nhead, dim_feedforward=2 * dim, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, num_layers=layers, enable_nested_tensor=False)
        self.head = nn.Linear(dim, 2)

    def forward(self, rows: Tensor) -> Tensor:
        h = self.encoder(self.fields(rows))
        return self.head(h.mean(dim=1))


CARDS = [8, 8, 5, 4, 10]


def transactions(n: int, gen: torch.Generator) -> tuple[Tensor, Tensor]:
    """fraud if home country and merchant country differ (fields 0, 1) and the amount bucket (4) is high"""
    x = torch.stack([torch.randint(0, c, (n,), generator=gen) for c in CARDS], dim=1)
    same = torch.rand(n, generator=gen) < 0.4
    x[same, 1] = x[same, 0]
    y = ((x[:, 0] != x[:, 1]) & (x[:, 4] >= 4)).long()
    return x, y


def accuracy(model: nn.Module, x: Tensor, y: Tensor, batch_size: int) -> float:
    with torch.no_grad():
        hits = [(model(a).argmax(1) == b).sum() for a, b in zip(x.split(batch_size), y.split(batch_size))]
    return (sum(hits) / len(y)).item()


def main() -> None:
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(1)
    x, y = transactions(1500, gen)
    tx, ty = transactions(400, gen)
    model = TabularClassifier(CARDS)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(8):
        for idx in torch.randperm(len(x)).split(50):
            loss = nn.functional.cross_entropy(model(x[idx]), y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
        if epoch % 2:
            print(f"epoch {epoch + 1}: loss {loss.item():.3f} test {accuracy(model, tx, ty, 50):.3f}")
    model.eval()
    print(f"test accuracy with batches of 50: {accuracy(model, tx, ty, 50):.3f}, row by row: {accuracy(model, tx, ty, 1):.3f}")


if __name__ == "__main__":
    main()
