# source: https://github.com/Zeleni9/pytorch-wgan/issues/40
import argparse

import torch
import torch.nn as nn
from torch import autograd


class Generator(nn.Module):
    def __init__(self, z_dim, channels, width=32):
        super().__init__()
        self.main = nn.Sequential(
            nn.ConvTranspose2d(z_dim, width * 2, 4, 1, 0),
            nn.BatchNorm2d(width * 2),
            nn.ReLU(True),
            nn.ConvTranspose2d(width * 2, width, 4, 2, 1),
            nn.BatchNorm2d(width),
            nn.ReLU(True),
            nn.ConvTranspose2d(width, channels, 4, 2, 1),
            nn.Tanh(),
        )

    def forward(self, z):
        return self.main(z[:, :, None, None])


class Discriminator(nn.Module):
    def __init__(self, channels, width=32):
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2d(channels, width, 4, 2, 1),
            nn.LeakyReLU(0.2),
            nn.Conv2d(width, width * 2, 4, 2, 1),
            nn.InstanceNorm2d(width * 2, affine=True),
            nn.LeakyReLU(0.2),
        )
        self.output = nn.Conv2d(width * 2, 1, 4, 1, 0)

    def forward(self, x):
        return self.output(self.main(x)).flatten()


class WGAN_GP:
    def __init__(self, args):
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.z_dim = args.z_dim
        self.batch_size = args.batch_size
        self.critic_iter = args.critic_iter
        self.lambda_term = args.lambda_term
        self.G = Generator(args.z_dim, args.channels).to(self.device)
        self.D = Discriminator(args.channels).to(self.device)
        self.g_optimizer = torch.optim.Adam(self.G.parameters(), lr=1e-4, betas=(0.5, 0.999))
        self.d_optimizer = torch.optim.Adam(self.D.parameters(), lr=1e-4, betas=(0.5, 0.999))

    def noise(self, n):
        return torch.randn(n, self.z_dim, device=self.device)

    def gradient_penalty(self, real_images, fake_images):
        eta = torch.rand(real_images.size(0), 1, 1, 1, device=self.device)
        interpolated = (eta * real_images + (1 - eta) * fake_images).requires_grad_(True)
        prob = self.D(interpolated)
        gradients = autograd.grad(
            outputs=prob,
            inputs=interpolated,
            grad_outputs=torch.ones_like(prob),
            create_graph=True,
        )[0]
        slope = gradients.flatten(1).norm(2, dim=1)
        return ((slope - 1) ** 2).mean() * self.lambda_term

    def critic_step(self, images):
        with torch.no_grad():
            fake = self.G(self.noise(images.size(0)))
        d_real = self.D(images).mean()
        d_fake = self.D(fake).mean()
        penalty = self.gradient_penalty(images, fake)
        d_loss = d_fake - d_real + penalty
        self.d_optimizer.zero_grad()
        d_loss.backward()
        self.d_optimizer.step()
        return (d_real - d_fake).item(), penalty.item()

    def generator_step(self):
        g_loss = -self.D(self.G(self.noise(self.batch_size))).mean()
        self.g_optimizer.zero_grad()
        g_loss.backward()
        self.g_optimizer.step()
        return g_loss.item()

    def train(self, batches, iters):
        for it in range(iters):
            for _ in range(self.critic_iter):
                wasserstein, penalty = self.critic_step(next(batches).to(self.device))
            g_loss = self.generator_step()
            if it % 2 == 0:
                print(f"iter {it} W {wasserstein:.3f} penalty {penalty:.3f} g {g_loss:.3f}")


def image_stream(batch_size, channels, size=16):
    while True:
        base = torch.randn(batch_size, channels, size // 4, size // 4)
        yield torch.tanh(nn.functional.interpolate(base, scale_factor=4, mode="bilinear"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--z_dim", type=int, default=32)
    parser.add_argument("--channels", type=int, default=1)
    parser.add_argument("--batch_size", type=int, default=16)
    parser.add_argument("--critic_iter", type=int, default=3)
    parser.add_argument("--lambda_term", type=float, default=10.0)
    parser.add_argument("--iters", type=int, default=5)
    args = parser.parse_args()
    torch.manual_seed(0)
    WGAN_GP(args).train(image_stream(args.batch_size, args.channels), args.iters)
