"""Rectified flow between Gaussian noise and two blobs: straight paths, Euler sampling."""
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Velocity(nn.Module):
    def __init__(self, dim=2, width=64):
        super().__init__()
        self.inp = nn.Linear(dim + 1, width)
        self.mid = nn.Linear(width, width)
        self.out = nn.Linear(width, dim)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def forward(self, x, t):
        h = torch.nn.functional.silu(self.inp(torch.cat((x, t), dim=1)))
        h = h + torch.nn.functional.silu(self.mid(h))
        return self.out(h)


def sample_data(n):
    side = torch.randint(2, (n, 1), device=device) * 2.0 - 1.0
    return torch.cat([2 * side, side], dim=1) + 0.2 * torch.randn(n, 2, device=device)


def flow_loss(net, x1):
    x0 = torch.randn_like(x1)
    t = torch.rand(x1.size(0), 1, device=x1.device)
    xt = torch.lerp(x0, x1, t)
    return (net(xt, t) - (x1 - x0)).pow(2).mean()


@torch.inference_mode()
def integrate(net, n, steps):
    x = torch.randn(n, 2, device=device)
    dt = 1.0 / steps
    for i in range(steps):
        t = torch.full((n, 1), i * dt, device=device)
        x = x + dt * net(x, t)
    return x


def main():
    torch.manual_seed(0)
    net = Velocity().to(device)
    optimizer = torch.optim.Adam(net.parameters(), lr=4e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=300)
    for it in range(300):
        optimizer.zero_grad()
        loss = flow_loss(net, sample_data(128))
        loss.backward()
        optimizer.step()
        scheduler.step()
        if it % 100 == 0:
            print(f"{it}: {loss.item():.3f}")
    net.eval()
    points = integrate(net, 400, steps=20)
    right = points[:, 0] > 0
    share = right.float().mean().item()
    print(f"share on the right {share:.2f}, spread of |x| {points[:, 0].abs().mean().item():.2f}")


if __name__ == "__main__":
    main()
