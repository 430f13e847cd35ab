# target: script
# truth: Silently wrong (only a UserWarning): the model returns (B, 1) and the target is (B,), so MSELoss broadcasts both to (B, B) and every prediction is pulled to the mean of the batch; RMSE does not get below the spread of the target.
"""Weekly demand per store and item: entity embeddings + MLP. From notebook 03_embeddings.ipynb."""
import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

params = dict(
    n_stores=12,
    n_items=40,
    emb_dim=6,
    hidden=[64, 32],
    batch_size=64,
    max_epochs=8,
    learning_rate=5e-3,
)


class SalesDataset(Dataset):
    def __init__(self, table):
        self.store = torch.as_tensor(table["store"], dtype=torch.long)
        self.item = torch.as_tensor(table["item"], dtype=torch.long)
        self.cont = torch.as_tensor(table["cont"], dtype=torch.float32)
        self.target = torch.as_tensor(table["log_units"], dtype=torch.float32)

    def __len__(self):
        return len(self.target)

    def __getitem__(self, i):
        return self.store[i], self.item[i], self.cont[i], self.target[i]


class DemandNet(nn.Module):
    def __init__(self, n_stores, n_items, n_cont, emb_dim, hidden):
        super().__init__()
        self.store_emb = nn.Embedding(n_stores, emb_dim)
        self.item_emb = nn.Embedding(n_items, emb_dim)
        layers, width = [], 2 * emb_dim + n_cont
        for h in hidden:
            layers += [nn.Linear(width, h), nn.ReLU()]
            width = h
        self.mlp = nn.Sequential(*layers, nn.Linear(width, 1))

    def forward(self, store, item, cont):
        x = torch.cat([self.store_emb(store), self.item_emb(item), cont], dim=1)
        return self.mlp(x)  # error: DG303


def make_table(n, rng):
    store = rng.integers(0, params["n_stores"], n)
    item = rng.integers(0, params["n_items"], n)
    cont = rng.standard_normal((n, 3))  # price index, promo depth, temperature
    units = 0.1 * store + 0.05 * item + 0.8 * cont[:, 1] - 0.5 * cont[:, 0]
    return {"store": store, "item": item, "cont": cont, "log_units": units + 0.1 * rng.standard_normal(n)}


def main():
    torch.manual_seed(2024)
    rng = np.random.default_rng(2024)
    train_ds, valid_ds = SalesDataset(make_table(3000, rng)), SalesDataset(make_table(600, rng))
    train_dl = DataLoader(train_ds, params["batch_size"], shuffle=True)
    valid_dl = DataLoader(valid_ds, params["batch_size"])
    model = DemandNet(params["n_stores"], params["n_items"], 3, params["emb_dim"], params["hidden"])
    opt = torch.optim.Adam(model.parameters(), lr=params["learning_rate"])
    mse = nn.MSELoss()
    for epoch in range(params["max_epochs"]):
        model.train()
        for store, item, cont, y in train_dl:
            opt.zero_grad()
            mse(model(store, item, cont), y).backward()
            opt.step()
        model.eval()
        with torch.no_grad():
            se = sum(mse(model(s, i, c), y).item() * len(y) for s, i, c, y in valid_dl)
        print(f"epoch {epoch}: valid RMSE {(se / len(valid_ds)) ** 0.5:.4f} (target std {valid_ds.target.std():.4f})")


if __name__ == "__main__":
    main()
