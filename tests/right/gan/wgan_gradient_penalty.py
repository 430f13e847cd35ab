"""WGAN-GP on a ring of Gaussians: several critic steps per generator step, penalty by a double backward."""
import math

import torch
from torch import autograd, nn

N_CRITIC = 5
LAMBDA = 10.0
LATENT = 4


def mlp(n_in, n_out, width=32):
    return nn.Sequential(nn.Linear(n_in, width), nn.LeakyReLU(0.2), nn.Linear(width, width), nn.LeakyReLU(0.2), nn.Linear(width, n_out))


def gradient_penalty(critic, real, fake):
    mix = torch.rand(real.size(0), 1, device=real.device)
    x = torch.lerp(fake, real, mix).requires_grad_(True)
    score = critic(x)
    # create_graph: the norm of this gradient is itself part of the loss
    (grad,) = autograd.grad(score.sum(), x, create_graph=True)
    norm = (grad.square().sum(dim=1) + 1e-12).sqrt()
    return (norm - 1).square().mean()


def ring(n, device, modes=6):
    k = torch.randint(modes, (n,), device=device)
    angle = k * (2 * math.pi / modes)
    return torch.stack([angle.cos(), angle.sin()], 1) + 0.05 * torch.randn(n, 2, device=device)


def critic_step(critic, gen, opt, device, batch=64):
    real = ring(batch, device)
    with torch.no_grad():
        fake = gen(torch.randn(batch, LATENT, device=device))
    gap = critic(fake).mean() - critic(real).mean()
    loss = gap + LAMBDA * gradient_penalty(critic, real, fake)
    opt.zero_grad()
    loss.backward()
    opt.step()
    return -gap.detach()


def generator_step(critic, gen, opt, device, batch=64):
    critic.requires_grad_(False)
    loss = -critic(gen(torch.randn(batch, LATENT, device=device))).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    critic.requires_grad_(True)


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    critic, gen = mlp(2, 1).to(device), mlp(LATENT, 2).to(device)
    opt_c = torch.optim.Adam(critic.parameters(), lr=4e-3, betas=(0.0, 0.9))
    opt_g = torch.optim.Adam(gen.parameters(), lr=4e-4, betas=(0.0, 0.9))
    for it in range(80):
        for _ in range(N_CRITIC):
            distance = critic_step(critic, gen, opt_c, device)
        generator_step(critic, gen, opt_g, device)
        if it % 20 == 0:
            print(f"iteration {it}: estimated distance {distance.item():.3f}")


if __name__ == "__main__":
    main()
