# source: https://github.com/Ciela-Institute/caustics/pull/83
# target: script
# truth: torch.where evaluates both branches for every radius; the one not taken is NaN (sqrt/arccos out of range) and its
#   zero gradient times NaN makes every gradient NaN, so the halo parameters are NaN after the first step
import argparse
import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

EPS = 1e-4


def _outside(x: Tensor) -> Tensor:
    return torch.arccos(1 / x) / torch.sqrt(x.square() - 1)


def _inside(x: Tensor) -> Tensor:
    return torch.arccosh(1 / x) / torch.sqrt(1 - x.square())


def _shape_term(x: Tensor) -> Tensor:
    """The angle term of the projected NFW profile, x = r / r_s."""
    return torch.where(x > 1, _outside(x), _inside(x))  # culprit


def projected_mass(x: Tensor) -> Tensor:
    """Dimensionless mass inside the cylinder of radius x."""
    return torch.log(x / 2) + _shape_term(x)


@dataclass
class Grid:
    n: int = 24
    fov: float = 5.0

    def coords(self, device: torch.device) -> tuple[Tensor, Tensor]:
        half = self.fov / 2 - self.fov / (2 * self.n)
        line = torch.linspace(-half, half, self.n, device=device)
        y, x = torch.meshgrid(line, line, indexing="ij")
        return x, y


class NFWHalo(nn.Module):
    def __init__(self, x0: float, y0: float, log_mass: float, log_rs: float, softening: float = 1e-2):
        super().__init__()
        self.center = nn.Parameter(torch.tensor([x0, y0]))
        self.log_mass = nn.Parameter(torch.tensor(float(log_mass)))
        self.log_rs = nn.Parameter(torch.tensor(float(log_rs)))
        self.softening = softening

    def reduced_deflection_angle(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        dx, dy = x - self.center[0], y - self.center[1]
        r = torch.sqrt(dx.square() + dy.square() + self.softening**2)
        rs = self.log_rs.exp()
        alpha = self.log_mass.exp() * projected_mass(r / rs) / r
        return alpha * dx / r, alpha * dy / r


class ExternalShear(nn.Module):
    def __init__(self, gamma_1: float = 0.0, gamma_2: float = 0.0):
        super().__init__()
        self.gamma = nn.Parameter(torch.tensor([gamma_1, gamma_2]))

    def reduced_deflection_angle(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        g1, g2 = self.gamma
        return g1 * x + g2 * y, g2 * x - g1 * y


class Lens(nn.Module):
    def __init__(self, *components: nn.Module):
        super().__init__()
        self.components = nn.ModuleList(components)

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        bx, by = x, y
        for component in self.components:
            ax, ay = component.reduced_deflection_angle(x, y)
            bx, by = bx - ax, by - ay
        return bx, by


def source_brightness(bx: Tensor, by: Tensor, width: float = 0.4) -> Tensor:
    return torch.exp(-0.5 * (bx.square() + by.square()) / width**2)


def fit(args: argparse.Namespace) -> Lens:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    x, y = Grid(args.pixels).coords(device)
    truth = Lens(NFWHalo(0.1, -0.05, 0.2, 0.3), ExternalShear(0.03, 0.0)).to(device)
    with torch.no_grad():
        data = source_brightness(*truth(x, y))
    model = Lens(NFWHalo(0.0, 0.0, 0.0, 0.0), ExternalShear()).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    for step in range(args.steps):
        chi2 = (source_brightness(*model(x, y)) - data).square().mean()
        optimizer.zero_grad()
        chi2.backward()
        optimizer.step()
        if step % 20 == 0:
            print(f"{step:4d} chi2 {chi2.item():.6f}")
    return model


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--pixels", type=int, default=24)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--lr", type=float, default=0.02)
    lens = fit(parser.parse_args())
    halo = lens.components[0]
    print("r_s", math.exp(halo.log_rs.item()), "center", halo.center.tolist())
