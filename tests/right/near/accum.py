"""Gradient accumulation of several kinds."""
import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

device = "cuda" if torch.cuda.is_available() else "cpu"


def batches():
    return DataLoader(TensorDataset(torch.randn(44, 6), torch.randint(3, (44,))), batch_size=4)


def with_remainder():
    net = nn.Linear(6, 3).to(device)
    opt = torch.optim.SGD(net.parameters(), 0.1)
    loader = batches()
    opt.zero_grad()
    for i, (x, y) in enumerate(loader):
        loss = F.cross_entropy(net(x.to(device)), y.to(device)) / 4
        loss.backward()
        if (i + 1) % 4 == 0 or i + 1 == len(loader):
            opt.step()
            opt.zero_grad()


def micro():
    net = nn.Linear(6, 3).to(device)
    opt = torch.optim.SGD(net.parameters(), 0.1)
    for x, y in batches():
        opt.zero_grad()
        for xs, ys in zip(x.chunk(2), y.chunk(2)):
            loss = F.cross_entropy(net(xs.to(device)), ys.to(device)) / 2
            loss.backward()
        opt.step()


def two_losses():
    net, head = nn.Linear(6, 8).to(device), nn.Linear(8, 3).to(device)
    opt = torch.optim.SGD([*net.parameters(), *head.parameters()], 0.1)
    for x, y in batches():
        x, y = x.to(device), y.to(device)
        opt.zero_grad()
        h = net(x).relu()
        F.cross_entropy(head(h), y).backward(retain_graph=True)
        (h.abs().mean() * 0.01).backward()
        opt.step()


def alternating():
    a, b = nn.Linear(6, 3).to(device), nn.Linear(6, 3).to(device)
    oa, ob = torch.optim.Adam(a.parameters()), torch.optim.Adam(b.parameters())
    for i, (x, y) in enumerate(batches()):
        x, y = x.to(device), y.to(device)
        net, opt = (a, oa) if i % 2 == 0 else (b, ob)
        opt.zero_grad()
        F.cross_entropy(net(x), y).backward()
        opt.step()


def optimizer_in_backward():
    net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)).to(device)
    opts = {p: torch.optim.SGD([p], 0.1) for p in net.parameters()}

    def hook(p):
        opts[p].step()
        opts[p].zero_grad()

    for p in net.parameters():
        p.register_post_accumulate_grad_hook(hook)
    for x, y in batches():
        F.cross_entropy(net(x.to(device)), y.to(device)).backward()


def skipped_batches():
    net = nn.Linear(6, 3).to(device)
    opt = torch.optim.SGD(net.parameters(), 0.1)
    for i, (x, y) in enumerate(batches()):
        opt.zero_grad()
        loss = F.cross_entropy(net(x.to(device)), y.to(device))
        if not torch.isfinite(loss):
            print("skipped", i)
            continue
        loss.backward()
        norm = nn.utils.clip_grad_norm_(net.parameters(), 10.0)
        if not torch.isfinite(norm):
            opt.zero_grad()
            continue
        opt.step()


def zero_after():
    net = nn.Linear(6, 3).to(device)
    opt = torch.optim.SGD(net.parameters(), 0.1)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min(1.0, (s + 1) / 10))
    for x, y in batches():
        F.cross_entropy(net(x.to(device)), y.to(device)).backward()
        opt.step()
        sched.step()
        for p in net.parameters():
            p.grad = None


def manual_sgd():
    w = torch.zeros(6, 3, device=device, requires_grad=True)
    for x, y in batches():
        loss = F.cross_entropy(x.to(device) @ w, y.to(device))
        loss.backward()
        with torch.no_grad():
            w -= 0.1 * w.grad
            w.grad.zero_()


def momentum_of_gradients():
    """Keeps half of the gradient on purpose."""
    net = nn.Linear(6, 3).to(device)
    opt = torch.optim.SGD(net.parameters(), 0.1)
    for x, y in batches():
        F.cross_entropy(net(x.to(device)), y.to(device)).backward()
        opt.step()
        for p in net.parameters():
            p.grad.mul_(0.5)


if __name__ == "__main__":
    with_remainder(); micro(); two_losses(); alternating(); optimizer_in_backward(); skipped_batches(); zero_after(); manual_sgd()
    momentum_of_gradients()
