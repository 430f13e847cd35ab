# target: fit
# truth: move_to calls tensor.to(device) without keeping the result, so the batch stays on the CPU; with the model on a GPU the first forward pass raises "Expected all tensors to be on the same device".
"""Click-through-rate model (wide & deep) for ad ranking."""
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


class ClickLog(Dataset):
    def __init__(self, n=256, n_fields=6, vocab=50, n_dense=4):
        g = torch.Generator().manual_seed(3)
        self.sparse = torch.randint(0, vocab, (n, n_fields), generator=g)
        self.dense = torch.randn(n, n_dense, generator=g)
        self.click = (torch.rand(n, generator=g) < 0.3).float()

    def __len__(self):
        return len(self.click)

    def __getitem__(self, i):
        return {"sparse": self.sparse[i], "dense": self.dense[i], "click": self.click[i]}


class WideDeep(nn.Module):
    def __init__(self, n_fields=6, vocab=50, n_dense=4, dim=8):
        super().__init__()
        self.embeddings = nn.ModuleList([nn.Embedding(vocab, dim) for _ in range(n_fields)])
        self.deep = nn.Sequential(nn.Linear(n_fields * dim + n_dense, 32), nn.ReLU(), nn.Linear(32, 1))
        self.wide = nn.Linear(n_dense, 1)

    def forward(self, sparse, dense):
        parts = [emb(sparse[:, i]) for i, emb in enumerate(self.embeddings)]
        deep = self.deep(torch.cat(parts + [dense], dim=1))
        return (deep + self.wide(dense)).squeeze(1)


def move_to(batch: dict, device: torch.device) -> dict:
    """Move every tensor of a batch to the device."""
    for key, value in batch.items():
        if torch.is_tensor(value):
            value.to(device)  # error: DG202
    return batch


def fit(epochs: int = 1, lr: float = 1e-3) -> list[float]:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(ClickLog(), batch_size=64, shuffle=True)
    model = WideDeep().to(device)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=lr)
    criterion = nn.BCEWithLogitsLoss()
    history = []
    for _ in range(epochs):
        for batch in loader:
            batch = move_to(batch, device)
            loss = criterion(model(batch["sparse"], batch["dense"]), batch["click"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            history.append(loss.item())
    return history


if __name__ == "__main__":
    print(fit()[-1])
