"""numpy both ways, pickles, seeds, generators, contexts of one's own, properties, lazy modules, meta device, streams."""
import contextlib
import io
import itertools
import numpy as np
import torch
from torch import nn
import torch.nn.functional as F

device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")


class LazyNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.LazyConv2d(4, 3), nn.LazyBatchNorm2d(), nn.ReLU(), nn.Flatten(), nn.LazyLinear(3))

    @property
    def device(self):
        return next(self.parameters()).device

    def forward(self, x):
        return self.net(x.to(self.device))


@contextlib.contextmanager
def frozen(module):
    state = [p.requires_grad for p in module.parameters()]
    module.requires_grad_(False)
    try:
        yield module
    finally:
        for p, s in zip(module.parameters(), state):
            p.requires_grad_(s)


@contextlib.contextmanager
def evaluating(net):
    was = net.training
    try:
        net.eval()
        yield net
    finally:
        net.train(was)


def batches(x, y, n, rng):
    while True:
        i = rng.permutation(len(x))[:n]
        yield torch.from_numpy(x[i]).float(), torch.from_numpy(y[i])


def meta():
    with torch.device("meta"):
        big = nn.Linear(4096, 4096)
    n = sum(p.numel() for p in big.parameters())
    real = nn.Linear(8, 8, device="meta").to_empty(device=device)
    real.reset_parameters()
    return n, real(torch.randn(2, 8, device=device)).sum().item()


def to_disk(net):
    f = io.BytesIO()
    torch.save(net.state_dict(), f)
    f.seek(0)
    net.load_state_dict(torch.load(f, map_location=device, weights_only=True))


def traced(net):
    net.eval()
    script = torch.jit.trace(net, torch.randn(1, 8, device=device))
    with torch.no_grad():
        return script(torch.randn(2, 8, device=device))


def adversarial_domain():
    enc, cls, dom = nn.Linear(8, 8).to(device), nn.Linear(8, 2).to(device), nn.Linear(8, 2).to(device)
    oe = torch.optim.Adam(itertools.chain(enc.parameters(), cls.parameters()))
    od = torch.optim.Adam(dom.parameters())
    for _ in range(4):
        s, t = torch.randn(4, 8, device=device), torch.randn(4, 8, device=device)
        y = torch.randint(2, (4,), device=device)
        d = torch.cat([torch.zeros(4), torch.ones(4)]).long().to(device)
        with frozen(dom):
            h = enc(torch.cat([s, t]))
            loss = F.cross_entropy(cls(h[:4]), y) - 0.1 * F.cross_entropy(dom(h), d)
            oe.zero_grad()
            loss.backward()
            oe.step()
        od.zero_grad()
        F.cross_entropy(dom(h.detach()), d).backward()
        od.step()


def main():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(40, 3, 8, 8)), rng.integers(0, 3, 40)
    net = LazyNet().to(device)
    net(torch.zeros(2, 3, 8, 8))
    opt = torch.optim.RMSprop(net.parameters(), lr=1e-3)
    for step, (a, b) in zip(range(5), batches(x, y, 8, rng)):
        b = b.to(net.device)
        loss = F.cross_entropy(net(a), b)
        opt.zero_grad()
        loss.backward()
        opt.step()
        with evaluating(net), torch.no_grad():
            acc = (net(a).argmax(1) == b).float().mean().cpu().numpy()
    print(acc, meta())
    to_disk(net)
    traced(nn.Sequential(nn.Linear(8, 8), nn.ReLU()).to(device))
    adversarial_domain()


if __name__ == "__main__":
    main()
