import torch
import torch.nn as nn
import torch.nn.functional as F


class ConvVAE(nn.Module):
    def __init__(self, latent=8):
        super().__init__()
        self.enc = nn.Sequential(
            nn.Conv2d(1, 8, 4, 2, 1), nn.ReLU(),
            nn.Conv2d(8, 16, 4, 2, 1), nn.ReLU(),
            nn.Flatten(),
        )
        self.stats = nn.Linear(16 * 16, 2 * latent)
        self.dec_in = nn.Linear(latent, 16 * 16)
        self.dec = nn.Sequential(
            nn.ConvTranspose2d(16, 8, 4, 2, 1), nn.ReLU(),
            nn.ConvTranspose2d(8, 1, 4, 2, 1),
        )

    def reparameterize(self, mu, logvar):
        if not self.training:
            return mu
        std = torch.exp(0.5 * logvar)
        return mu + std * torch.randn_like(std)

    def forward(self, x):
        mu, logvar = self.stats(self.enc(x)).chunk(2, dim=1)
        z = self.reparameterize(mu, logvar)
        out = self.dec(self.dec_in(z).view(-1, 16, 4, 4))
        return torch.sigmoid(out), mu, logvar


def loss_fn(recon, x, mu, logvar):
    bce = F.binary_cross_entropy(recon, x, reduction="sum")
    kld = -0.5 * (1 + logvar - mu ** 2 - logvar.exp()).sum()
    return (bce + kld) / len(x)


def main():
    torch.manual_seed(0)
    train, test = torch.rand(32, 1, 16, 16), torch.rand(8, 1, 16, 16)
    model = ConvVAE()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(3):
        model.train()
        loss = loss_fn(*_forward(model, train))
        opt.zero_grad()
        loss.backward()
        opt.step()
        model.eval()
        with torch.no_grad():
            val = loss_fn(*_forward(model, test))
        print(f"{epoch} train {loss.item():.2f} test {val.item():.2f}")


def _forward(model, x):
    recon, mu, logvar = model(x)
    return recon, x, mu, logvar


if __name__ == "__main__":
    main()
