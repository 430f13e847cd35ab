# source: https://github.com/pytorch/pytorch/pull/62293
# target: script
# truth: sigma's graph saves the u and v buffers themselves and the next training forward overwrites them in place:
#   with D(real) and D(fake) before one backward, it raises "modified by an inplace operation"
import torch
import torch.nn.functional as F
from torch import nn


class SpectralConv2d(nn.Module):
    """Conv2d whose weight is divided by a power-iteration estimate of its largest singular value."""

    def __init__(self, cin, cout, kernel_size, stride=1, padding=0, n_power_iterations=1, eps=1e-12):
        super().__init__()
        self.stride = stride
        self.padding = padding
        self.n_power_iterations = n_power_iterations
        self.eps = eps
        self.weight = nn.Parameter(torch.empty(cout, cin, kernel_size, kernel_size))
        self.bias = nn.Parameter(torch.zeros(cout))
        nn.init.orthogonal_(self.weight)
        self.register_buffer("u", F.normalize(torch.randn(cout), dim=0))
        self.register_buffer("v", F.normalize(torch.randn(cin * kernel_size * kernel_size), dim=0))
        self._power_method(self.weight.flatten(1), 15)

    @torch.no_grad()
    def _power_method(self, mat, n):
        for _ in range(n):
            self.v.copy_(F.normalize(mat.t() @ self.u, dim=0, eps=self.eps))
            self.u.copy_(F.normalize(mat @ self.v, dim=0, eps=self.eps))

    def normalized_weight(self):
        mat = self.weight.flatten(1)
        if self.training:
            self._power_method(mat, self.n_power_iterations)
        u, v = self.u, self.v  # culprit
        sigma = torch.dot(u, mat @ v)
        return self.weight / sigma

    def forward(self, x):
        return F.conv2d(x, self.normalized_weight(), self.bias, self.stride, self.padding)


class Critic(nn.Module):
    def __init__(self, channels=1, nf=16):
        super().__init__()
        self.layers = nn.Sequential(
            SpectralConv2d(channels, nf, 4, 2, 1),
            nn.LeakyReLU(0.1),
            SpectralConv2d(nf, nf * 2, 4, 2, 1),
            nn.LeakyReLU(0.1),
        )
        self.out = nn.Linear(nf * 2, 1)

    def forward(self, x):
        return self.out(self.layers(x).sum(dim=(2, 3))).squeeze(1)


class Generator(nn.Module):
    def __init__(self, z_dim=16, nf=16):
        super().__init__()
        self.nf = nf
        self.fc = nn.Linear(z_dim, nf * 16)
        self.net = nn.Sequential(
            nn.ConvTranspose2d(nf, nf, 4, 2, 1), nn.BatchNorm2d(nf), nn.ReLU(), nn.ConvTranspose2d(nf, 1, 4, 2, 1), nn.Tanh()
        )

    def forward(self, z):
        return self.net(self.fc(z).view(-1, self.nf, 4, 4))


def hinge_d(real, fake):
    return F.relu(1 - real).mean() + F.relu(1 + fake).mean()


def train(steps=10, batch=16, z_dim=16):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    gen, critic = Generator(z_dim).to(device), Critic().to(device)
    opt_g = torch.optim.Adam(gen.parameters(), lr=2e-4, betas=(0.0, 0.9))
    opt_d = torch.optim.Adam(critic.parameters(), lr=4e-4, betas=(0.0, 0.9))
    for step in range(steps):
        real = torch.randn(batch, 1, 16, 16, device=device).clamp(-1, 1)
        with torch.no_grad():
            fake = gen(torch.randn(batch, z_dim, device=device))
        loss_d = hinge_d(critic(real), critic(fake))
        opt_d.zero_grad()
        loss_d.backward()
        opt_d.step()

        loss_g = -critic(gen(torch.randn(batch, z_dim, device=device))).mean()
        opt_g.zero_grad()
        loss_g.backward()
        opt_g.step()
    print(f"loss_d {loss_d.item():.4f} loss_g {loss_g.item():.4f}")


if __name__ == "__main__":
    torch.manual_seed(1)
    train()
