"""Two optimizers in turn, a gradient penalty, gradients of one loss that reach the other network."""

import torch
from torch import nn, autograd

device = "cuda" if torch.cuda.is_available() else "cpu"


def gradient_penalty(critic, real, fake):
    alpha = torch.rand(real.size(0), 1, device=real.device)
    mixed = (alpha * real + (1 - alpha) * fake.detach()).requires_grad_(True)
    score = critic(mixed)
    grad, = autograd.grad(score, mixed, grad_outputs=torch.ones_like(score), create_graph=True, retain_graph=True)
    return ((grad.norm(2, dim=1) - 1) ** 2).mean()


def wgan():
    G = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 16)).to(device)
    D = nn.Sequential(nn.Linear(16, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1)).to(device)
    og = torch.optim.Adam(G.parameters(), 1e-4, betas=(0.0, 0.9))
    od = torch.optim.Adam(D.parameters(), 1e-4, betas=(0.0, 0.9))
    for step in range(6):
        for _ in range(2):
            real = torch.randn(4, 16, device=device)
            fake = G(torch.randn(4, 8, device=device)).detach()
            d_loss = D(fake).mean() - D(real).mean() + 10.0 * gradient_penalty(D, real, fake)
            od.zero_grad()
            d_loss.backward()
            od.step()
        for p in D.parameters():
            p.requires_grad_(False)
        g_loss = -D(G(torch.randn(4, 8, device=device))).mean()
        og.zero_grad()
        g_loss.backward()
        og.step()
        for p in D.parameters():
            p.requires_grad_(True)


def classic():
    """The discriminator also gets gradients from the generator's backward: they are cleared before use."""
    G = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 16)).to(device)
    D = nn.Sequential(nn.Linear(16, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1), nn.Sigmoid()).to(device)
    bce = nn.BCELoss()
    og, od = torch.optim.Adam(G.parameters()), torch.optim.Adam(D.parameters())
    for step in range(4):
        b = 4
        D.zero_grad()
        real = torch.randn(b, 16, device=device)
        label = torch.full((b,), 1.0, device=device)
        out = D(real).view(-1)
        err_real = bce(out, label)
        err_real.backward()
        fake = G(torch.randn(b, 8, device=device))
        label.fill_(0.0)
        err_fake = bce(D(fake.detach()).view(-1), label)
        err_fake.backward()
        od.step()
        G.zero_grad()
        label.fill_(1.0)
        err_g = bce(D(fake).view(-1), label)
        err_g.backward()
        og.step()


if __name__ == "__main__":
    wgan()
    classic()
