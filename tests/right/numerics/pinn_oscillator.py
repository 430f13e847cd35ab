"""A physics-informed network for u'' = -u with u(0)=1, u'(0)=0, derivatives by autograd.grad."""
import math

import torch
from torch import nn


class Sine(nn.Module):
    def forward(self, x):
        return torch.sin(x)


def derivative(u, t):
    # create_graph: the derivative enters the loss, and is differentiated again for u''
    return torch.autograd.grad(u, t, grad_outputs=torch.ones_like(u), create_graph=True)[0]


def residuals(net, t):
    t = t.requires_grad_(True)
    u = net(t)
    du = derivative(u, t)
    ddu = derivative(du, t)
    return ddu + u


def initial_conditions(net, device):
    t0 = torch.zeros(1, 1, device=device, requires_grad=True)
    u0 = net(t0)
    v0 = derivative(u0, t0)
    return (u0 - 1).square().sum() + v0.square().sum()


def train(net, device, steps=200, points=48, t_max=math.pi):
    opt = torch.optim.Adam(net.parameters(), lr=5e-3)
    for step in range(steps):
        t = torch.rand(points, 1, device=device) * t_max
        ode = residuals(net, t).square().mean()
        ic = initial_conditions(net, device)
        loss = ode + 5 * ic
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 50 == 0:
            print(f"step {step}: ode {ode.item():.4f} initial {ic.item():.4f}")


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    net = nn.Sequential(nn.Linear(1, 24), Sine(), nn.Linear(24, 24), Sine(), nn.Linear(24, 1)).to(device)
    train(net, device)
    with torch.no_grad():
        t = torch.linspace(0, math.pi, 50, device=device).unsqueeze(1)
        error = (net(t) - torch.cos(t)).abs().max()
    print(f"largest error {error.item():.3f}")


if __name__ == "__main__":
    main()
