# target: GAN.step
# truth: The discriminator's loss goes back through the generator, whose graph it frees; the generator's backward() then
#   raises "Trying to backward through the graph a second time". The discriminator must see `fake.detach()`.
"""A small GAN on vectors; one object that owns both players and both optimizers."""

import torch
import torch.nn as nn
import torch.nn.functional as F


def mlp(*sizes):
    layers = []
    for before, after in zip(sizes[:-2], sizes[1:-1]):
        layers += [nn.Linear(before, after), nn.LeakyReLU(0.2)]
    return nn.Sequential(*layers, nn.Linear(sizes[-2], sizes[-1]))


class GAN:
    def __init__(self, latent=16, data=32, lr=2e-4, device="cpu"):
        self.latent = latent
        self.device = torch.device(device)
        self.generator = mlp(latent, 64, data).to(self.device)
        self.discriminator = mlp(data, 64, 1).to(self.device)
        self.opt_g = torch.optim.Adam(self.generator.parameters(), lr=lr, betas=(0.5, 0.999))
        self.opt_d = torch.optim.Adam(self.discriminator.parameters(), lr=lr, betas=(0.5, 0.999))

    def sample(self, count):
        noise = torch.randn(count, self.latent, device=self.device)
        return self.generator(noise)

    def step(self, real):
        real = real.to(self.device)
        fake = self.sample(len(real))

        self.opt_d.zero_grad()
        on_real = self.discriminator(real)
        on_fake = self.discriminator(fake)  # error: DG113
        loss_d = F.softplus(-on_real).mean() + F.softplus(on_fake).mean()
        loss_d.backward()
        self.opt_d.step()

        self.opt_g.zero_grad()
        loss_g = F.softplus(-self.discriminator(fake)).mean()
        loss_g.backward()
        self.opt_g.step()
        return loss_d.item(), loss_g.item()


if __name__ == "__main__":
    torch.manual_seed(0)
    gan = GAN()
    for _ in range(3):
        print(*gan.step(torch.randn(24, 32)))
