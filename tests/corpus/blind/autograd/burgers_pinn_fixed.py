# target: BurgersPINN.train_step
"""Physics-informed network for the viscous Burgers equation u_t + u u_x = nu u_xx."""
import math

import torch
from torch import nn


class BurgersPINN:
    def __init__(self, nu: float = 0.01 / math.pi, width: int = 20, depth: int = 3, lr: float = 1e-3):
        layers: list[nn.Module] = [nn.Linear(2, width), nn.Tanh()]
        for _ in range(depth - 1):
            layers += [nn.Linear(width, width), nn.Tanh()]
        layers.append(nn.Linear(width, 1))
        self.net = nn.Sequential(*layers)
        self.nu = nu
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=lr)

    def u(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        return self.net(torch.cat([x, t], dim=1))

    def residual(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        """PDE residual at the collocation points; x and t have shape (n, 1)."""
        x = x.detach().clone().requires_grad_(True)
        t = t.detach().clone().requires_grad_(True)
        u = self.u(x, t)
        ones = torch.ones_like(u)
        u_t = torch.autograd.grad(u, t, grad_outputs=ones, create_graph=True)[0]
        u_x = torch.autograd.grad(u, x, grad_outputs=ones, create_graph=True)[0]
        u_xx = torch.autograd.grad(u_x, x, grad_outputs=ones, create_graph=True)[0]
        return u_t + u * u_x - self.nu * u_xx

    def boundary_loss(self, n: int) -> torch.Tensor:
        t = torch.rand(n, 1)
        left, right = self.u(-torch.ones(n, 1), t), self.u(torch.ones(n, 1), t)
        return left.pow(2).mean() + right.pow(2).mean()

    def initial_loss(self, n: int) -> torch.Tensor:
        x = 2 * torch.rand(n, 1) - 1
        target = -torch.sin(math.pi * x)
        return (self.u(x, torch.zeros(n, 1)) - target).pow(2).mean()

    def train_step(self, n_collocation: int = 256, n_boundary: int = 32) -> dict[str, float]:
        x = 2 * torch.rand(n_collocation, 1) - 1
        t = torch.rand(n_collocation, 1)
        self.optimizer.zero_grad()
        pde = self.residual(x, t).pow(2).mean()
        bc = self.boundary_loss(n_boundary)
        ic = self.initial_loss(n_boundary)
        loss = pde + bc + ic
        loss.backward()
        self.optimizer.step()
        return {"pde": pde.item(), "bc": bc.item(), "ic": ic.item()}
