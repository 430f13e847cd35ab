# source: https://github.com/Jee-King/TSAN/issues/3
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


def conv(cin, cout, k=3):
    return nn.Conv2d(cin, cout, k, padding=k // 2)


class ChannelGate(nn.Module):
    def __init__(self, nf, reduction=4):
        super().__init__()
        self.fc = nn.Sequential(conv(nf, nf // reduction, 1), nn.ReLU(True), conv(nf // reduction, nf, 1), nn.Sigmoid())

    def forward(self, x):
        return x * self.fc(F.adaptive_avg_pool2d(x, 1))


class Body(nn.Module):
    def __init__(self, nf):
        super().__init__()
        self.c1 = conv(nf, nf)
        self.c2 = conv(nf, nf)

    def forward(self, x):
        return self.c2(F.leaky_relu(self.c1(x), 0.2)) + x


class CoarseStage(nn.Module):
    """Cascade of bodies, each of which adds a gated map to the running result."""

    def __init__(self, nf, n_bodies):
        super().__init__()
        self.bodies = nn.ModuleList([Body(nf) for _ in range(n_bodies)])
        self.gates = nn.ModuleList([ChannelGate(nf) for _ in range(n_bodies)])
        self.fuse = conv(nf, nf, 1)

    def forward(self, x):
        out = x.clone()
        feat = x
        for body, gate in zip(self.bodies, self.gates):
            feat = body(feat)
            out += gate(feat)
        return self.fuse(out)


class TwoStageSR(nn.Module):
    def __init__(self, scale=2, nf=16, n_bodies=3):
        super().__init__()
        self.scale = scale
        self.head = conv(3, nf)
        self.coarse = CoarseStage(nf, n_bodies)
        self.up = nn.Sequential(conv(nf, nf * scale * scale), nn.PixelShuffle(scale))
        self.fine = CoarseStage(nf, 1)
        self.tail = conv(nf, 3)

    def forward(self, lr):
        base = F.interpolate(lr, scale_factor=self.scale, mode="bicubic", align_corners=False)
        feat = self.coarse(self.head(lr))
        return base + self.tail(self.fine(self.up(feat)))


def make_batch(n, size, scale):
    hr = torch.rand(n, 3, size * scale, size * scale)
    hr = F.avg_pool2d(hr, 3, stride=1, padding=1)
    return F.interpolate(hr, scale_factor=1 / scale, mode="area"), hr


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="two-stage super resolution")
    parser.add_argument("--scale", type=int, default=2)
    parser.add_argument("--iters", type=int, default=6)
    parser.add_argument("--lr", type=float, default=1e-3)
    opt = parser.parse_args()
    torch.manual_seed(3)
    net = TwoStageSR(opt.scale)
    optimizer = torch.optim.Adam(net.parameters(), lr=opt.lr)
    for it in range(opt.iters):
        lr_img, hr_img = make_batch(4, 16, opt.scale)
        loss = F.l1_loss(net(lr_img), hr_img)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if it % 5 == 0:
            print("iter %d, l1 %.4f" % (it, loss.item()))
    print("done")
