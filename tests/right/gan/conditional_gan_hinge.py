"""A conditional GAN with projection discriminator, hinge losses and spectral norm."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.parametrizations import spectral_norm


class ProjectionDiscriminator(nn.Module):
    def __init__(self, classes, width=32):
        super().__init__()
        self.features = nn.Sequential(spectral_norm(nn.Linear(2, width)), nn.ReLU(), spectral_norm(nn.Linear(width, width)), nn.ReLU())
        self.score = spectral_norm(nn.Linear(width, 1))
        self.project = spectral_norm(nn.Embedding(classes, width))

    def forward(self, x, y):
        h = self.features(x)
        return self.score(h).squeeze(1) + (self.project(y) * h).sum(dim=1)


class ConditionalGenerator(nn.Module):
    def __init__(self, classes, latent=4, width=32):
        super().__init__()
        self.latent = latent
        self.embed = nn.Embedding(classes, width)
        self.first = nn.Linear(latent, width)
        self.last = nn.Linear(width, 2)

    def forward(self, y):
        z = torch.randn(y.size(0), self.latent, device=y.device)
        return self.last(F.relu(self.first(z) + self.embed(y)))


def d_hinge(real, fake):
    return F.relu(1 - real).mean() + F.relu(1 + fake).mean()


def g_hinge(fake):
    return -fake.mean()


def main(classes=3, steps=120, batch=48):
    torch.manual_seed(9)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    centers = torch.tensor([[1.5, 0.0], [-1.0, 1.0], [0.0, -1.5]], device=device)
    gen, disc = ConditionalGenerator(classes).to(device), ProjectionDiscriminator(classes).to(device)
    opt_g = torch.optim.Adam(gen.parameters(), lr=2e-3, betas=(0.0, 0.99))
    opt_d = torch.optim.Adam(disc.parameters(), lr=4e-3, betas=(0.0, 0.99))
    for step in range(steps):
        y = torch.randint(classes, (batch,), device=device)
        real = centers[y] + 0.1 * torch.randn(batch, 2, device=device)
        with torch.no_grad():
            fake = gen(y)
        loss_d = d_hinge(disc(real, y), disc(fake, y))
        opt_d.zero_grad(set_to_none=True)
        loss_d.backward()
        opt_d.step()

        y = torch.randint(classes, (batch,), device=device)
        loss_g = g_hinge(disc(gen(y), y))
        # The discriminator's gradients of this backward are cleared before its next step.
        opt_g.zero_grad(set_to_none=True)
        loss_g.backward()
        opt_g.step()
        if step % 40 == 0:
            print(f"{step}: D {loss_d.item():.3f} G {loss_g.item():.3f}")

    gen.eval()
    with torch.no_grad():
        y = torch.arange(classes, device=device).repeat_interleave(100)
        nearest = torch.cdist(gen(y), centers).argmin(1)
        print(f"near the right center: {(nearest == y).float().mean().item():.2f}")


if __name__ == "__main__":
    main()
