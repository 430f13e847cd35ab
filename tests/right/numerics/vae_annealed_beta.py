"""A VAE with binary data: summed reconstruction, closed-form KL, KL annealing and prior samples."""
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass
class VAEOutput:
    logits: Tensor
    mu: Tensor
    logvar: Tensor


class VAE(nn.Module):
    def __init__(self, n_in=36, latent=3, hidden=48):
        super().__init__()
        self.latent = latent
        self.enc = nn.Sequential(nn.Linear(n_in, hidden), nn.ReLU())
        self.to_mu, self.to_logvar = nn.Linear(hidden, latent), nn.Linear(hidden, latent)
        self.dec = nn.Sequential(nn.Linear(latent, hidden), nn.ReLU(), nn.Linear(hidden, n_in))

    def reparameterize(self, mu, logvar):
        if not self.training:
            return mu
        return mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)

    def forward(self, x) -> VAEOutput:
        h = self.enc(x)
        mu, logvar = self.to_mu(h), self.to_logvar(h)
        return VAEOutput(self.dec(self.reparameterize(mu, logvar)), mu, logvar)

    @torch.no_grad()
    def sample(self, n):
        z = torch.randn(n, self.latent, device=self.to_mu.weight.device)
        return torch.sigmoid(self.dec(z))


def elbo_terms(out: VAEOutput, x: Tensor):
    rec = F.binary_cross_entropy_with_logits(out.logits, x, reduction="none").sum(dim=1)
    kl = -0.5 * (1 + out.logvar - out.mu.square() - out.logvar.exp()).sum(dim=1)
    return rec.mean(), kl.mean()


def bars(n, device):
    x = torch.zeros(n, 6, 6, device=device)
    k = torch.randint(6, (n,), device=device)
    x[torch.arange(n, device=device), k] = 1.0
    flip = torch.rand(n, 1, 1, device=device) < 0.5
    return torch.where(flip, x.transpose(1, 2), x).flatten(1)


def main(steps=150, warmup=75):
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    vae = VAE().to(device)
    opt = torch.optim.Adam(vae.parameters(), lr=5e-3)
    for step in range(steps):
        beta = min(1.0, step / warmup)
        x = bars(64, device)
        rec, kl = elbo_terms(vae(x), x)
        loss = rec + beta * kl
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 50 == 0:
            print(f"step {step}: rec {rec.item():.2f} kl {kl.item():.2f} beta {beta:.2f}")
    vae.eval()
    with torch.no_grad():
        x = bars(200, device)
        rec, kl = elbo_terms(vae(x), x)
    print(f"evaluation rec {rec.item():.2f} kl {kl.item():.2f}; samples {tuple(vae.sample(4).shape)}")


if __name__ == "__main__":
    main()
