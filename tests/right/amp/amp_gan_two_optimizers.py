"""One GradScaler serves two optimizers of a GAN: scale and step for each, update once."""
import torch
from torch import nn
import torch.nn.functional as F

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
AMP = device.type == "cuda"


def autocast():
    return torch.autocast(device.type, dtype=torch.float16, enabled=AMP)


def mlp(a, b):
    return nn.Sequential(nn.Linear(a, 32), nn.LeakyReLU(0.2), nn.Linear(32, b)).to(device)


def real_batch(n):
    t = torch.rand(n, 1, device=device) * 6.283
    return torch.cat([t.sin(), t.cos()], dim=1)


def main():
    torch.manual_seed(0)
    G, D = mlp(4, 2), mlp(2, 1)
    opt_g = torch.optim.Adam(G.parameters(), lr=1e-3)
    opt_d = torch.optim.Adam(D.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler(device.type, enabled=AMP)
    for step in range(60):
        x = real_batch(32)
        with autocast():
            fake = G(torch.randn(32, 4, device=device))
            real_score, fake_score = D(x), D(fake.detach())
            loss_d = F.softplus(-real_score.float()).mean() + F.softplus(fake_score.float()).mean()
        opt_d.zero_grad(set_to_none=True)
        scaler.scale(loss_d).backward()
        scaler.step(opt_d)

        with autocast():
            loss_g = F.softplus(-D(fake).float()).mean()
        opt_g.zero_grad(set_to_none=True)
        scaler.scale(loss_g).backward()
        scaler.step(opt_g)
        scaler.update()
        if step % 20 == 0:
            print(f"step {step}: D {loss_d.item():.3f}, G {loss_g.item():.3f}")


if __name__ == "__main__":
    main()
