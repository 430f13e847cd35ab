"""A snapshot ensemble: cyclic learning rate, one frozen copy of the net per cycle, averaged probabilities."""
import copy
import math

import torch
from torch import nn
from torch.nn import functional as F

CYCLES, STEPS = 3, 40


def cyclic_lr(step, base=0.2):
    return base / 2 * (math.cos(math.pi * (step % STEPS) / STEPS) + 1)


def rings(n, device):
    radius = torch.rand(n, device=device) * 3
    angle = torch.rand(n, device=device) * 2 * math.pi
    x = torch.stack([radius * angle.cos(), radius * angle.sin()], 1)
    y = torch.div(radius, 1.0, rounding_mode="floor").long().clamp(max=2)
    return x, y


def ensemble_log_prob(members, x):
    """log of the mean probability, computed without leaving log space."""
    stacked = torch.stack([F.log_softmax(m(x), dim=-1) for m in members])
    return torch.logsumexp(stacked, dim=0) - math.log(len(members))


def main():
    torch.manual_seed(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    net = nn.Sequential(nn.Linear(2, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 3)).to(device)
    opt = torch.optim.SGD(net.parameters(), lr=0.2, momentum=0.9)
    members = nn.ModuleList()
    for step in range(CYCLES * STEPS):
        for group in opt.param_groups:
            group["lr"] = cyclic_lr(step)
        x, y = rings(96, device)
        opt.zero_grad()
        F.cross_entropy(net(x), y).backward()
        nn.utils.clip_grad_norm_(net.parameters(), 2.0)
        opt.step()
        if (step + 1) % STEPS == 0:
            members.append(copy.deepcopy(net).eval().requires_grad_(False))

    x, y = rings(1000, device)
    with torch.no_grad():
        for i, m in enumerate(members):
            print(f"member {i}: nll {F.cross_entropy(m(x), y).item():.4f}")
        log_prob = ensemble_log_prob(members, x)
        nll = F.nll_loss(log_prob, y)
        accuracy = (log_prob.argmax(-1) == y).float().mean()
    print(f"ensemble: nll {nll.item():.4f} accuracy {accuracy.item():.3f}")


if __name__ == "__main__":
    main()
