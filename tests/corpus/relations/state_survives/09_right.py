import copy

import torch
import torch.nn as nn
import torch.nn.functional as F


class VAE(nn.Module):
    def __init__(self, dim=16, latent=3, hidden=32):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(dim, hidden), nn.GELU(), nn.Linear(hidden, 2 * latent))
        self.dec = nn.Sequential(nn.Linear(latent, hidden), nn.GELU(), nn.Linear(hidden, dim))

    def forward(self, x, noise):
        mu, logvar = self.enc(x).chunk(2, dim=-1)
        z = mu + noise * torch.exp(0.5 * logvar)
        kl = 0.5 * (mu.pow(2) + logvar.exp() - 1 - logvar).sum(-1).mean()
        return self.dec(z), kl


class AnnealedRun:
    """Training run whose KL weight grows linearly to one."""

    def __init__(self, anneal_steps=40):
        self.vae = VAE()
        self.optimizer = torch.optim.Adam(self.vae.parameters(), lr=3e-3)
        self.anneal_steps = anneal_steps
        self.step = 0

    @property
    def beta(self):
        return min(1.0, self.step / self.anneal_steps)

    def train_step(self, x, noise):
        recon, kl = self.vae(x, noise)
        loss = F.mse_loss(recon, x, reduction="none").sum(-1).mean() + self.beta * kl
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.step += 1
        return loss.item()

    def checkpoint(self):
        return {"vae": self.vae.state_dict(), "optimizer": self.optimizer.state_dict(),
                "step": self.step}

    def restore(self, state):
        self.vae.load_state_dict(state["vae"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step = state["step"]
        return self


def main():
    torch.manual_seed(0)
    basis = torch.randn(3, 16)
    data = [(torch.randn(64, 3) @ basis, torch.randn(64, 3)) for _ in range(60)]
    run = AnnealedRun()
    for x, noise in data[:30]:
        run.train_step(x, noise)
    saved = copy.deepcopy(run.checkpoint())
    for x, noise in data[30:]:
        a = run.train_step(x, noise)
    again = AnnealedRun().restore(saved)
    for x, noise in data[30:]:
        b = again.train_step(x, noise)
    print(f"uninterrupted {a:.4f}, resumed {b:.4f}")


if __name__ == "__main__":
    main()
