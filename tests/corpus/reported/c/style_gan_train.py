# source: https://github.com/rosinality/style-based-gan-pytorch/pull/50
# target: train
# truth: the generator loss is read with .item() in every generator step although it is only printed every 10 steps;
#   on a GPU each read makes the host wait for the device, so CPU and GPU take turns instead of overlapping
import argparse

import torch
from torch import nn, optim
from torch.autograd import grad
from torch.nn import functional as F


def requires_grad(model, flag=True):
    for p in model.parameters():
        p.requires_grad = flag


def accumulate(model1, model2, decay=0.999):
    par1 = dict(model1.named_parameters())
    par2 = dict(model2.named_parameters())
    with torch.no_grad():
        for k in par1:
            par1[k].mul_(decay).add_(par2[k], alpha=1 - decay)


class StyledGenerator(nn.Module):
    def __init__(self, code_dim=16, width=8):
        super().__init__()
        self.style = nn.Sequential(nn.Linear(code_dim, width), nn.LeakyReLU(0.2), nn.Linear(width, width * 2))
        self.const = nn.Parameter(torch.randn(1, width, 4, 4))
        self.conv = nn.Conv2d(width, width, 3, padding=1)
        self.to_rgb = nn.Conv2d(width, 3, 1)

    def forward(self, code):
        gamma, beta = self.style(code)[:, :, None, None].chunk(2, 1)
        out = F.instance_norm(self.const.expand(code.shape[0], -1, -1, -1) + torch.zeros_like(gamma))
        out = F.interpolate(out * (1 + gamma) + beta, scale_factor=2)
        return self.to_rgb(F.leaky_relu(self.conv(out), 0.2))


class Discriminator(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, width, 3, stride=2, padding=1), nn.LeakyReLU(0.2),
                                 nn.Conv2d(width, width, 4), nn.LeakyReLU(0.2), nn.Flatten(), nn.Linear(width, 1))

    def forward(self, x):
        return self.net(x)


def sample_data(batch, device):
    gen = torch.Generator().manual_seed(7)
    images = torch.rand(32, 3, 8, 8, generator=gen) * 2 - 1
    while True:
        idx = torch.randint(len(images), (batch,), generator=gen)
        yield images[idx].to(device, non_blocking=True)


def train(args, generator, discriminator, g_running, device):
    g_optimizer = optim.Adam(generator.parameters(), lr=args.lr, betas=(0.0, 0.99))
    d_optimizer = optim.Adam(discriminator.parameters(), lr=args.lr, betas=(0.0, 0.99))
    loader = sample_data(args.batch, device)
    requires_grad(generator, False)
    requires_grad(discriminator, True)

    for i in range(args.iters):
        discriminator.zero_grad()
        real_image = next(loader)
        real_image.requires_grad = True
        real_scores = discriminator(real_image)
        real_predict = F.softplus(-real_scores).mean()
        real_predict.backward(retain_graph=True)

        grad_real = grad(outputs=real_scores.sum(), inputs=real_image, create_graph=True)[0]
        grad_penalty = (grad_real.view(grad_real.size(0), -1).norm(2, dim=1) ** 2).mean()
        grad_penalty = 10 / 2 * grad_penalty
        grad_penalty.backward()

        gen_in1, gen_in2 = torch.randn(2, args.batch, args.code_dim, device=device).unbind(0)
        fake_predict = F.softplus(discriminator(generator(gen_in1))).mean()
        fake_predict.backward()
        d_optimizer.step()

        if (i + 1) % args.n_critic == 0:
            generator.zero_grad()
            requires_grad(generator, True)
            requires_grad(discriminator, False)
            predict = discriminator(generator(gen_in2))
            loss = F.softplus(-predict).mean()
            gen_loss_val = loss.item()  # culprit
            loss.backward()
            g_optimizer.step()
            accumulate(g_running, generator)
            requires_grad(generator, False)
            requires_grad(discriminator, True)

        if (i + 1) % 10 == 0:
            print(f"iter {i + 1}; G: {gen_loss_val:.3f}; D: {(real_predict + fake_predict).item():.3f};"
                  f" Grad: {grad_penalty.item():.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=0.001)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--code_dim", type=int, default=16)
    parser.add_argument("--n_critic", type=int, default=1)
    parser.add_argument("--iters", type=int, default=20)
    opts = parser.parse_args([])
    torch.manual_seed(0)
    dev = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    g, d, g_ema = StyledGenerator().to(dev), Discriminator().to(dev), StyledGenerator().to(dev)
    accumulate(g_ema, g, 0)
    train(opts, g, d, g_ema, dev)
