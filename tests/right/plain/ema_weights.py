"""An exponential moving average of weights, kept by lerp_ under no_grad and swapped in for evaluation."""
import copy
from contextlib import contextmanager

import torch
from torch import nn
import torch.nn.functional as F


class EMA:
    def __init__(self, model: nn.Module, decay: float = 0.95):
        self.decay = decay
        self.shadow = copy.deepcopy(model).eval().requires_grad_(False)

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        for s, p in zip(self.shadow.parameters(), model.parameters(), strict=True):
            s.lerp_(p, 1 - self.decay)
        for s, b in zip(self.shadow.buffers(), model.buffers(), strict=True):
            s.copy_(b)

    @contextmanager
    def as_eval(self):
        with torch.no_grad():
            yield self.shadow


def toy_batch(n, device):
    x = torch.randn(n, 8, device=device)
    y = (x[:, :4].sum(1) > x[:, 4:].sum(1)).long()
    return x, y


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Sequential(nn.Linear(8, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 2)).to(device)
    ema = EMA(model)
    opt = torch.optim.SGD(model.parameters(), lr=0.3)

    for _step in range(120):
        x, y = toy_batch(32, device)
        opt.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        ema.update(model)

    x_test, y_test = toy_batch(500, device)
    model.eval()
    with torch.no_grad():
        raw = (model(x_test).argmax(1) == y_test).float().mean()
    with ema.as_eval() as averaged:
        smooth = (averaged(x_test).argmax(1) == y_test).float().mean()
    print(f"accuracy raw {raw.item():.3f}, averaged {smooth.item():.3f}")


if __name__ == "__main__":
    main()
