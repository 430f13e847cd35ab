"""Helpers that read state which others have built."""
import torch
from torch import nn
import torch.nn.functional as F

device = "cuda" if torch.cuda.is_available() else "cpu"


class Meter:
    def __init__(self):
        self.values = []

    def add(self, v):
        self.values.append(v)

    def mean(self):
        return sum(self.values) / len(self.values)

    def last(self):
        return self.values[-1]


class Buffer:
    def __init__(self, n):
        self.n, self.items = n, []

    def add(self, x):
        self.items.append(x)
        if len(self.items) > self.n:
            self.items.pop(0)

    def stack(self):
        return torch.stack(self.items)

    def clear(self):
        self.items.clear()


class Rollout:
    def __init__(self):
        self.log_probs, self.rewards = [], []

    def finish(self):
        R, out = 0.0, []
        for r in self.rewards[::-1]:
            R = r + 0.99 * R
            out.insert(0, R)
        out = torch.tensor(out, device=device)
        loss = -(torch.stack(self.log_probs) * (out - out.mean())).sum()
        self.log_probs, self.rewards = [], []
        return loss


def grad_norm(model):
    return torch.sqrt(sum(p.grad.pow(2).sum() for p in model.parameters()))


def flat_grad(model):
    return torch.cat([p.grad.view(-1) for p in model.parameters()])


def clip(model, limit):
    for p in model.parameters():
        p.grad.clamp_(-limit, limit)


def log_grads(model):
    return {n: p.grad.abs().mean().item() for n, p in model.named_parameters()}


def step_sgd(params, lr):
    with torch.no_grad():
        for p in params:
            p -= lr * p.grad
            p.grad = None


class Hooked(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 2)
        self.saved = None

    def forward(self, x):
        h = self.a(x).relu()
        self.saved = h
        if h.requires_grad:
            h.retain_grad()
        return self.b(h)

    def cam(self):
        return (self.saved * self.saved.grad).sum(-1)


def train():
    net = Hooked().to(device)
    opt = torch.optim.SGD(net.parameters(), 0.1)
    meter, buffer, rollout = Meter(), Buffer(3), Rollout()
    for step in range(4):
        opt.zero_grad()
        out = net(torch.randn(3, 4, device=device))
        loss = out.square().mean()
        loss.backward()
        print(grad_norm(net).item(), flat_grad(net).shape, log_grads(net))
        clip(net, 1.0)
        opt.step()
        meter.add(loss.item())
        buffer.add(out.detach())
        print(net.cam().shape)
    print(meter.mean(), meter.last(), buffer.stack().shape)
    for _ in range(3):
        dist = torch.distributions.Categorical(logits=net(torch.randn(4, device=device)))
        a = dist.sample()
        rollout.log_probs.append(dist.log_prob(a))
        rollout.rewards.append(1.0)
    loss = rollout.finish()
    opt.zero_grad()
    loss.backward()
    opt.step()
    w = torch.randn(3, device=device, requires_grad=True)
    (w ** 2).sum().backward()
    step_sgd([w], 0.1)


if __name__ == "__main__":
    train()
