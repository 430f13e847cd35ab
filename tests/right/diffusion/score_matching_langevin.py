"""Denoising score matching at several noise levels and annealed Langevin sampling."""
import torch
from torch import nn

torch.manual_seed(0)
dev = torch.device("cuda") if torch.cuda.is_available() else torch.device("cpu")

SIGMAS = torch.logspace(0.5, -1, 6, device=dev)
STEPS = 250


class ScoreNet(nn.Module):
    """Predicts sigma * score, which stays of order one at every level."""

    def __init__(self, width=64):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(3, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 2))

    def forward(self, x, sigma):
        scaled = x / (1 + sigma**2).sqrt()
        return self.f(torch.cat([scaled, sigma.log().expand(x.size(0), 1)], dim=1))


def bar_data(n):
    x = torch.rand(n, 1, device=dev) * 4 - 2
    return torch.cat([x, 0.5 * x], dim=1)


def dsm_loss(net, x):
    sigma = SIGMAS[torch.randint(len(SIGMAS), (x.size(0), 1), device=dev)]
    noise = torch.randn_like(x)
    # score of the Gaussian kernel is -noise / sigma; times sigma gives -noise
    return (net(x + sigma * noise, sigma) + noise).square().sum(1).mean()


@torch.no_grad()
def langevin(net, n, inner=10, c=0.05):
    x = torch.randn(n, 2, device=dev) * SIGMAS[0]
    for sigma in SIGMAS:
        step = c * sigma**2
        level = sigma.view(1, 1)
        for _ in range(inner):
            score = net(x, level) / sigma
            x = x + step * score + (2 * step).sqrt() * torch.randn_like(x)
    return x


net = ScoreNet().to(dev)
opt = torch.optim.Adam(net.parameters(), lr=3e-3)
for step in range(STEPS):
    loss = dsm_loss(net, bar_data(128))
    opt.zero_grad(set_to_none=True)
    loss.backward()
    opt.step()
    if step % 50 == 0:
        print(step, f"{loss.item():.3f}")

net.eval()
samples = langevin(net, 300)
off_line = (samples[:, 1] - 0.5 * samples[:, 0]).abs().median()
print(f"median distance from the line {off_line.item():.3f}")
