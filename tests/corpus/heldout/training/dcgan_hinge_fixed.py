# target: script
"""DCGAN with hinge loss on 32x32 images; toy data unless --data points to a tensor file."""
import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def up(i, o):
    return nn.Sequential(nn.ConvTranspose2d(i, o, 4, 2, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU())


def down(i, o):
    return nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Conv2d(i, o, 4, 2, 1)), nn.LeakyReLU(0.2))


class Generator(nn.Module):
    def __init__(self, z_dim=64, width=32):
        super().__init__()
        self.z_dim = z_dim
        self.fc = nn.Linear(z_dim, 4 * width * 16)
        self.net = nn.Sequential(up(4 * width, 2 * width), up(2 * width, width),
                                 nn.ConvTranspose2d(width, 3, 4, 2, 1), nn.Tanh())

    def forward(self, z):
        return self.net(self.fc(z).view(z.shape[0], -1, 4, 4))


class Discriminator(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.net = nn.Sequential(down(3, width), down(width, 2 * width), down(2 * width, 4 * width))
        self.fc = nn.Linear(4 * width * 16, 1)

    def forward(self, x):
        return self.fc(self.net(x).flatten(1)).squeeze(1)


class GANTrainer:
    def __init__(self, gen, disc, device, lr=2e-4, betas=(0.5, 0.999)):
        self.gen, self.disc, self.device = gen.to(device), disc.to(device), device
        self.opt_g = torch.optim.Adam(self.gen.parameters(), lr=lr, betas=betas)
        self.opt_d = torch.optim.Adam(self.disc.parameters(), lr=lr, betas=betas)

    def fake(self, n):
        return self.gen(torch.randn(n, self.gen.z_dim, device=self.device))

    def d_step(self, real):
        with torch.no_grad():
            fake = self.fake(real.shape[0])
        loss = F.relu(1.0 - self.disc(real)).mean() + F.relu(1.0 + self.disc(fake)).mean()
        self.opt_d.zero_grad()
        loss.backward()
        self.opt_d.step()
        return loss.detach()

    def g_step(self, n):
        loss = -self.disc(self.fake(n)).mean()
        self.opt_g.zero_grad()
        loss.backward()
        self.opt_g.step()
        return loss.detach()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default=None, help="file saved by torch.save with images in [-1, 1]")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=16)
    args = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if args.data:
        images = torch.load(args.data, map_location="cpu", weights_only=True)
    else:
        images = torch.rand(64, 3, 32, 32) * 2 - 1
    loader = DataLoader(TensorDataset(images), batch_size=args.batch_size, shuffle=True, drop_last=True)
    trainer = GANTrainer(Generator(), Discriminator(), device)
    for step, (real,) in zip(range(args.steps), loader):
        d_loss = trainer.d_step(real.to(device))
        g_loss = trainer.g_step(args.batch_size)
        if step % 50 == 0:
            print(f"step {step} d {d_loss.item():.3f} g {g_loss.item():.3f}")


if __name__ == "__main__":
    main()
