# target: script
# source: https://github.com/Lornatang/SRGAN-PyTorch/issues/1
# truth: none, the repaired twin of srgan_lr_schedule.py
import torch
import torch.nn as nn
import torch.nn.functional as F

epochs, batch_size, upscale = 8, 16, 2
torch.manual_seed(7)


class Generator(nn.Module):
    def __init__(self, ch=16):
        super().__init__()
        self.head = nn.Conv2d(1, ch, 3, padding=1)
        self.body = nn.Sequential(nn.PReLU(), nn.Conv2d(ch, ch, 3, padding=1), nn.PReLU(), nn.Conv2d(ch, ch, 3, padding=1))
        self.tail = nn.Sequential(nn.Conv2d(ch, upscale ** 2, 3, padding=1), nn.PixelShuffle(upscale))

    def forward(self, lr):
        f = self.head(lr)
        return self.tail(f + self.body(f)) + F.interpolate(lr, scale_factor=upscale, mode="nearest")


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, 16, 3, stride=2, padding=1), nn.LeakyReLU(0.2),
            nn.Conv2d(16, 16, 3, stride=2, padding=1), nn.LeakyReLU(0.2),
            nn.Flatten(), nn.Linear(16 * 4 * 4, 1),
        )

    def forward(self, x):
        return self.net(x)


def textures(n):
    c = torch.rand(n, 4, 1, 1) * 2
    yy, xx = torch.meshgrid(torch.linspace(0, 3, 16), torch.linspace(0, 3, 16), indexing="ij")
    return (0.5 + 0.5 * torch.sin(3 * (c[:, 0] * xx + c[:, 1] * yy)) * torch.cos(3 * c[:, 2] * xx - c[:, 3])).unsqueeze(1)


hr_images = textures(384)
lr_images = F.avg_pool2d(hr_images, upscale)
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(lr_images, hr_images), batch_size=batch_size, shuffle=True)

netG, netD = Generator(), Discriminator()
optimizerG = torch.optim.Adam(netG.parameters(), lr=1e-3)
optimizerD = torch.optim.Adam(netD.parameters(), lr=1e-3)
schedulerG = torch.optim.lr_scheduler.StepLR(optimizerG, step_size=epochs // 2, gamma=0.1)
schedulerD = torch.optim.lr_scheduler.StepLR(optimizerD, step_size=epochs // 2, gamma=0.1)
bce = nn.BCEWithLogitsLoss()

for epoch in range(epochs):
    mse_total = 0.0
    for lr, hr in loader:
        real, fake = torch.ones(len(lr), 1), torch.zeros(len(lr), 1)

        # discriminator
        sr = netG(lr)
        lossD = bce(netD(hr), real) + bce(netD(sr.detach()), fake)
        optimizerD.zero_grad()
        lossD.backward()
        optimizerD.step()

        # generator
        pixel = F.mse_loss(sr, hr)
        lossG = pixel + 1e-3 * bce(netD(sr), real)
        optimizerG.zero_grad()
        lossG.backward()
        optimizerG.step()
        mse_total += pixel.item()

    for scheduler in (schedulerD, schedulerG):
        scheduler.step()

    psnr = -10 * torch.log10(torch.tensor(mse_total / len(loader)))
    print(f"[{epoch + 1}/{epochs}] psnr {psnr.item():.2f} dB lr {optimizerG.param_groups[0]['lr']:.1e}")
