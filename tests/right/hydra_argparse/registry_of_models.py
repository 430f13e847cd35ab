"""Models and optimizers registered by decorators and picked by name on the command line."""
import argparse
from typing import Callable, Dict

import torch
import torch.nn as nn
import torch.nn.functional as F

MODELS: Dict[str, Callable[..., nn.Module]] = {}
OPTIMIZERS = {
    "adamw": lambda params, lr: torch.optim.AdamW(params, lr=lr),
    "sgd": lambda params, lr: torch.optim.SGD(params, lr=10 * lr, momentum=0.9),
}


def register(name):
    def wrap(factory):
        if name in MODELS:
            raise KeyError(f"{name} is registered twice")
        MODELS[name] = factory
        return factory

    return wrap


@register("linear")
def linear(n_in, n_out):
    return nn.Linear(n_in, n_out)


@register("mlp")
class MLP(nn.Module):
    def __init__(self, n_in, n_out, width=32):
        super().__init__()
        self.hidden = nn.Linear(n_in, width)
        self.readout = nn.Linear(width, n_out)

    def forward(self, x):
        return self.readout(F.relu(self.hidden(x)))


@register("residual")
class Residual(nn.Module):
    def __init__(self, n_in, n_out, width=32):
        super().__init__()
        self.lift, self.block, self.drop = nn.Linear(n_in, width), MLP(width, width), nn.Linear(width, n_out)

    def forward(self, x):
        h = self.lift(x)
        return self.drop(F.relu(h + self.block(h)))


def evaluate(model, x, y):
    model.eval()
    with torch.no_grad():
        accuracy = (model(x).argmax(-1) == y).float().mean().item()
    model.train()
    return accuracy


def fit(name, optimizer, steps, device):
    torch.manual_seed(0)
    x = torch.randn(600, 4, device=device)
    y = (x[:, 0] * x[:, 1] + x[:, 2] > 0).long()
    model = MODELS[name](4, 2).to(device)
    opt = OPTIMIZERS[optimizer](model.parameters(), lr=1e-2)
    for _ in range(steps):
        idx = torch.randint(400, (64,), device=device)
        loss = F.cross_entropy(model(x[idx]), y[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
    return evaluate(model, x[400:], y[400:])


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--model", choices=[*MODELS, "all"], default="all")
    ap.add_argument("--optimizer", choices=list(OPTIMIZERS), default="adamw")
    ap.add_argument("--steps", type=int, default=80)
    opts = ap.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    for name in MODELS if opts.model == "all" else [opts.model]:
        print(f"{name:>9}: accuracy {fit(name, opts.optimizer, opts.steps, device):.3f}")
