"""A shared trunk with named heads; the list of losses is summed with learned uncertainty weights."""
from collections import namedtuple

import torch
from torch import nn

Output = namedtuple("Output", ["price", "kind", "flag"])


class MultiHead(nn.Module):
    def __init__(self, n_in=12, width=32, kinds=4):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(n_in, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU())
        self.heads = nn.ModuleDict({"price": nn.Linear(width, 1), "kind": nn.Linear(width, kinds), "flag": nn.Linear(width, 1)})

    def forward(self, x):
        h = self.trunk(x)
        return Output(self.heads["price"](h).squeeze(-1), self.heads["kind"](h), self.heads["flag"](h).squeeze(-1))


class UncertaintyWeights(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.log_var = nn.Parameter(torch.zeros(n))

    def forward(self, losses):
        stacked = torch.stack(losses)
        return (torch.exp(-self.log_var) * stacked + self.log_var).sum()


def targets_for(x, edges):
    price = x[:, :3].sum(1)
    kind = torch.bucketize(x[:, 3].contiguous(), edges)
    flag = (x[:, 4] > x[:, 5]).float()
    return price, kind, flag


def main():
    torch.manual_seed(21)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model, weigh = MultiHead().to(device), UncertaintyWeights(3).to(device)
    opt = torch.optim.Adam([
        {"params": model.parameters(), "lr": 5e-3},
        {"params": weigh.parameters(), "lr": 1e-2, "weight_decay": 0.0},
    ])
    edges = torch.tensor([-0.7, 0.0, 0.7], device=device)
    mse, ce, bce = nn.SmoothL1Loss(), nn.CrossEntropyLoss(), nn.BCEWithLogitsLoss()
    for it in range(1, 151):
        x = torch.randn(64, 12, device=device)
        price, kind, flag = targets_for(x, edges)
        out = model(x)
        losses = [mse(out.price, price), ce(out.kind, kind), bce(out.flag, flag)]
        opt.zero_grad()
        weigh(losses).backward()
        opt.step()
        if it % 50 == 0:
            print(it, [f"{v:.3f}" for v in torch.stack(losses).tolist()])
    print("log variances", [round(v, 3) for v in weigh.log_var.tolist()])


if __name__ == "__main__":
    main()
