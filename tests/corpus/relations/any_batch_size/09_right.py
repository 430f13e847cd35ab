import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH_SIZE = 32


class GeneVAE(nn.Module):
    def __init__(self, genes=50, latent=6):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(genes, 64), nn.ReLU())
        self.mu = nn.Linear(64, latent)
        self.logvar = nn.Linear(64, latent)
        self.dec = nn.Sequential(nn.Linear(latent, 64), nn.ReLU(), nn.Linear(64, genes))

    def forward(self, x):
        h = self.enc(x)
        mu, logvar = self.mu(h), self.logvar(h)
        z = mu
        if self.training:
            z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        return self.dec(z), mu, logvar


def elbo_loss(recon, x, mu, logvar, beta=0.5):
    """Negative evidence lower bound per cell."""
    rec = F.mse_loss(recon, x, reduction="sum") / x.size(0)
    kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum()
    return rec + beta * kl / x.size(0)


def main():
    torch.manual_seed(0)
    counts = torch.poisson(torch.rand(96, 50) * 4).log1p()
    model = GeneVAE()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(3):
        for x in counts[torch.randperm(96)].split(BATCH_SIZE):
            loss = elbo_loss(*_args(model, x))
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(epoch, loss.item())


def _args(model, x):
    recon, mu, logvar = model(x)
    return recon, x, mu, logvar


if __name__ == "__main__":
    main()
