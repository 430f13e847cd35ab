"""Numerics that brush against infinity and are right."""
import math
import torch
from torch import nn
import torch.nn.functional as F

device = "cuda" if torch.cuda.is_available() else "cpu"


class MixtureNLL(nn.Module):
    def __init__(self, k=3):
        super().__init__()
        self.out = nn.Linear(4, 3 * k)

    def forward(self, x, y):
        w, mu, s = self.out(x).chunk(3, -1)
        logp = -0.5 * ((y[:, None] - mu) / s.exp()) ** 2 - s - 0.5 * math.log(2 * math.pi)
        return -torch.logsumexp(w.log_softmax(-1) + logp, -1).mean()


def safe_norm(x, eps=1e-12):
    return (x.pow(2).sum(-1) + eps).sqrt()


def double_where(x):
    ok = x > 0
    return torch.where(ok, torch.where(ok, x, 1.0).sqrt(), 0.0)


def spearman_soft(x):
    return torch.sigmoid((x[:, None] - x[None]) / 1e-2).sum(1)


def poincare(u, v):
    d = (u - v).pow(2).sum(-1)
    a, b = 1 - u.pow(2).sum(-1), 1 - v.pow(2).sum(-1)
    return torch.acosh((1 + 2 * d / (a * b)).clamp_min(1 + 1e-7))


def angle(a, b):
    c = F.cosine_similarity(a, b, dim=-1).clamp(-1 + 1e-6, 1 - 1e-6)
    return torch.acos(c)


def focal(p, gamma=2):
    return -((1 - p) ** gamma * torch.log(p + 1e-8)).mean()


def sinkhorn(cost, eps=0.1, n=10):
    f, g = torch.zeros_like(cost[:, 0]), torch.zeros_like(cost[0])
    a, b = -math.log(cost.size(0)), -math.log(cost.size(1))
    for _ in range(n):
        f = eps * (a - torch.logsumexp((g[None] - cost) / eps, 1))
        g = eps * (b - torch.logsumexp((f[:, None] - cost) / eps, 0))
    return (torch.exp((f[:, None] + g[None] - cost) / eps) * cost).sum()


def hard_max(x):
    best = torch.tensor(-math.inf, device=x.device)
    for row in x:
        best = torch.maximum(best, row.max())
    return best


def online_softmax(x):
    m = torch.full((x.size(0), 1), -math.inf, device=x.device)
    l = torch.zeros(x.size(0), 1, device=x.device)
    for block in x.split(2, dim=1):
        new = torch.maximum(m, block.max(1, keepdim=True).values)
        l = l * (m - new).exp() + (block - new).exp().sum(1, keepdim=True)
        m = new
    return (x - m).exp() / l


def masked_max_pool(h, mask):
    return h.masked_fill(~mask[..., None], -torch.inf).amax(1)


def pairwise_margin(s, y):
    diff = s[:, None] - s[None]
    wanted = y[:, None] > y[None]
    return F.softplus(-diff[wanted]).mean()


def cox(risk, time, event):
    order = time.argsort(descending=True)
    risk, event = risk[order], event[order]
    return -((risk - risk.logcumsumexp(0)) * event).sum() / event.sum().clamp(min=1)


def hazard(logits, t):
    return -(F.logsigmoid(-logits).cumsum(1).gather(1, t[:, None])).mean()


def main():
    x = torch.randn(6, 4, device=device)
    net = MixtureNLL().to(device)
    opt = torch.optim.Adam(net.parameters())
    for _ in range(4):
        opt.zero_grad()
        net(x, torch.randn(6, device=device)).backward()
        opt.step()
    z = torch.zeros(3, 4, device=device, requires_grad=True)
    safe_norm(z).sum().backward()
    v = torch.tensor([-1.0, 0.0, 4.0], device=device, requires_grad=True)
    double_where(v).sum().backward()
    w = torch.randn(5, device=device, requires_grad=True)
    spearman_soft(w).var().backward()
    u = (torch.randn(3, 2, device=device) * 0.1).requires_grad_()
    poincare(u, u.detach() * 0.5).sum().backward()
    a = torch.randn(3, 4, device=device, requires_grad=True)
    angle(a, a.detach()).sum().backward()
    focal(torch.sigmoid(w)).backward()
    sinkhorn(torch.rand(4, 5, device=device, requires_grad=True)).backward()
    print(hard_max(x), online_softmax(x).sum(1))
    h = torch.randn(2, 5, 3, device=device, requires_grad=True)
    mask = torch.tensor([[1, 1, 1, 0, 0], [1, 1, 0, 0, 0]], device=device).bool()
    masked_max_pool(h, mask).sum().backward()
    pairwise_margin(w, torch.arange(5, device=device)).backward()
    cox(w, torch.rand(5, device=device), torch.ones(5, device=device)).backward()
    hazard(torch.randn(2, 6, device=device, requires_grad=True), torch.tensor([2, 5], device=device)).backward()


main()
