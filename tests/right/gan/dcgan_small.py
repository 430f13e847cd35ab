"""A DCGAN on 8x8 synthetic blobs: the fake batch is detached for the discriminator."""
import torch
import torch.nn as nn

Z, BATCH = 8, 16
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def weights_init(m):
    name = m.__class__.__name__
    if "Conv" in name:
        nn.init.normal_(m.weight, 0.0, 0.02)
    elif "BatchNorm" in name:
        nn.init.normal_(m.weight, 1.0, 0.02)
        nn.init.zeros_(m.bias)


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(
            nn.ConvTranspose2d(Z, 16, 4, 1, 0, bias=False), nn.BatchNorm2d(16), nn.ReLU(True),
            nn.ConvTranspose2d(16, 1, 4, 2, 1), nn.Tanh(),
        )

    def forward(self, z):
        return self.main(z)


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2d(1, 16, 4, 2, 1), nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(16, 1, 4, 1, 0),
        )

    def forward(self, x):
        return self.main(x).flatten()


def real_images(n):
    grid = torch.linspace(-1, 1, 8, device=device)
    yy, xx = torch.meshgrid(grid, grid, indexing="ij")
    c = torch.rand(n, 2, 1, 1, device=device) - 0.5
    bump = torch.exp(-((yy - c[:, 0]) ** 2 + (xx - c[:, 1]) ** 2) / 0.2)
    return bump.unsqueeze(1) * 2 - 1


torch.manual_seed(0)
netG, netD = Generator().to(device).apply(weights_init), Discriminator().to(device).apply(weights_init)
criterion = nn.BCEWithLogitsLoss()
optG = torch.optim.Adam(netG.parameters(), lr=1e-3, betas=(0.5, 0.999))
optD = torch.optim.Adam(netD.parameters(), lr=1e-3, betas=(0.5, 0.999))
ones, zeros = torch.ones(BATCH, device=device), torch.zeros(BATCH, device=device)
fixed_noise = torch.randn(4, Z, 1, 1, device=device)

for i in range(60):
    # discriminator: both halves add to the same gradient
    netD.zero_grad()
    real = real_images(BATCH)
    errD_real = criterion(netD(real), ones)
    errD_real.backward()
    fake = netG(torch.randn(BATCH, Z, 1, 1, device=device))
    errD_fake = criterion(netD(fake.detach()), zeros)
    errD_fake.backward()
    optD.step()

    # generator: the same fakes, with their graph; labels are those of real images
    netG.zero_grad()
    errG = criterion(netD(fake), ones)
    errG.backward()
    optG.step()

    if i % 20 == 0:
        print(f"[{i}] D {(errD_real + errD_fake).item():.3f} G {errG.item():.3f}")

netG.eval()
with torch.no_grad():
    images = netG(fixed_noise)
print("samples", tuple(images.shape), f"mean {images.mean().item():.2f}")
