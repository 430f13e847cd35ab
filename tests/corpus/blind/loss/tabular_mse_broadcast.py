# target: script
# source: https://github.com/LAMDA-Tabular/TALENT/pull/92
# truth: predictions have shape (n, 1), targets (n,); their difference broadcasts to (n, n), so the loss compares every
#   prediction with every target and the network learns only the mean target (validation R2 stays near 0), silently.
import numpy as np
import torch
import torch.nn as nn


class TabularData:
    def __init__(self, n=800, seed=0):
        rng = np.random.default_rng(seed)
        num = rng.normal(size=(n, 4)).astype(np.float32)
        cat = rng.integers(0, 6, size=n)
        y = 2 * num[:, 0] - num[:, 1] * num[:, 2] + 0.7 * cat + 0.1 * rng.normal(size=n)
        y = (y - y.mean()) / y.std()
        k = int(0.8 * n)
        self.train = self._pack(num[:k], cat[:k], y[:k])
        self.valid = self._pack(num[k:], cat[k:], y[k:])

    @staticmethod
    def _pack(num, cat, y):
        return torch.from_numpy(num), torch.from_numpy(cat), torch.from_numpy(y.astype(np.float32))


class MLP(nn.Module):
    def __init__(self, d_num=4, n_cat=6, d_emb=4, width=64, depth=2):
        super().__init__()
        self.emb = nn.Embedding(n_cat, d_emb)
        dims = [d_num + d_emb] + [width] * depth
        blocks = []
        for a, b in zip(dims, dims[1:]):
            blocks += [nn.Linear(a, b), nn.ReLU()]
        self.body = nn.Sequential(*blocks)
        self.head = nn.Linear(width, 1)

    def forward(self, num, cat):
        return self.head(self.body(torch.cat([num, self.emb(cat)], dim=1)))


def squared_error(pred, target):
    return torch.mean((pred - target) ** 2)


def r2(pred, target):
    pred, target = pred.numpy().ravel(), target.numpy().ravel()
    return 1.0 - ((pred - target) ** 2).sum() / ((target - target.mean()) ** 2).sum()


class Method:
    def __init__(self, args):
        self.args = args
        torch.manual_seed(args["seed"])
        self.model = MLP(width=args["width"])
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=args["lr"], weight_decay=1e-4)

    def fit(self, data):
        num, cat, y = data.train
        for epoch in range(self.args["max_epoch"]):
            self.model.train()
            for idx in torch.randperm(len(y)).split(self.args["batch_size"]):
                pred = self.model(num[idx], cat[idx])
                loss = squared_error(pred, y[idx])  # error: DG303
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
            if epoch % 10 == 9:
                print("epoch %d: batch loss %.3f, valid r2 %.3f" % (epoch + 1, loss.item(), self.score(data.valid)))
        return self

    @torch.no_grad()
    def score(self, split):
        self.model.eval()
        num, cat, y = split
        return r2(self.model(num, cat), y)


if __name__ == "__main__":
    Method({"seed": 1, "width": 64, "lr": 3e-3, "batch_size": 64, "max_epoch": 40}).fit(TabularData())
