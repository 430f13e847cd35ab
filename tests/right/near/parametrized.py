"""Weights that are computed: orthogonal and spectral parametrizations, a layer used twice, buffers for statistics."""
import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Positive(nn.Module):
    def forward(self, raw):
        return nn.functional.softplus(raw)

    def right_inverse(self, value):
        return value + torch.log(-torch.expm1(-value))


class Whiten(nn.Module):
    def __init__(self, dim, momentum=0.1):
        super().__init__()
        self.momentum = momentum
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("count", torch.tensor(0))

    def forward(self, x):
        if self.training:
            with torch.no_grad():
                self.mean.lerp_(x.mean(dim=0), self.momentum)
                self.count += 1
        return x - self.mean


class Net(nn.Module):
    def __init__(self, dim=6):
        super().__init__()
        self.white = Whiten(dim)
        self.turn = parametrizations.orthogonal(nn.Linear(dim, dim, bias=False))
        self.squash = parametrizations.spectral_norm(nn.Linear(dim, dim))
        self.scale = nn.Linear(dim, dim, bias=False)
        nn.init.constant_(self.scale.weight, 0.5)
        parametrize.register_parametrization(self.scale, "weight", Positive())
        self.shared = nn.Linear(dim, dim)
        self.layers = nn.ModuleList([self.shared, nn.Tanh(), self.shared])

    def forward(self, x):
        x = self.scale(self.squash(self.turn(self.white(x))))
        for layer in self.layers:
            x = layer(x)
        return x


def main(steps=4):
    torch.manual_seed(0)
    net = Net().to(device)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(steps):
        x = torch.randn(16, 6, device=device) + 3
        loss = nn.functional.mse_loss(net(x), x.roll(1, dims=1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        q = net.turn.weight
        assert torch.allclose(q @ q.mT, torch.eye(6, device=device), atol=1e-4)
    net.eval()
    return loss.item(), net.white.count.item()


if __name__ == "__main__":
    print(main())
