# source: https://github.com/nikhilsinghmus/image2reverb/issues/37
import torch
import torch.nn as nn
import torch.nn.functional as F


def weights_init(m):
    if isinstance(m, (nn.Conv2d, nn.ConvTranspose2d)):
        nn.init.normal_(m.weight, 0.0, 0.02)
    elif isinstance(m, nn.BatchNorm2d):
        nn.init.normal_(m.weight, 1.0, 0.02)
        nn.init.zeros_(m.bias)


class Encoder(nn.Module):
    def __init__(self, latent):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(3, 8, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(8, 8, 4, 2, 1))
        self.fc = nn.Linear(8, latent)

    def forward(self, image):
        return self.fc(self.conv(image).mean((2, 3)))


class Generator(nn.Module):
    def __init__(self, latent):
        super().__init__()
        self.net = nn.Sequential(
            nn.ConvTranspose2d(latent + 4, 16, 4, 1, 0), nn.BatchNorm2d(16), nn.ReLU(),
            nn.ConvTranspose2d(16, 8, 4, 2, 1), nn.BatchNorm2d(8), nn.ReLU(),
            nn.ConvTranspose2d(8, 1, 4, 2, 1), nn.Tanh(),
        )

    def forward(self, z):
        return self.net(z)


class Discriminator(nn.Module):
    def __init__(self, latent):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 8, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(8, 8, 4, 2, 1))
        self.out = nn.Linear(8 + latent, 1)

    def forward(self, spec, label):
        h = F.leaky_relu(self.features(spec), 0.2).mean((2, 3))
        return self.out(torch.cat((h, label), 1))


class Image2Reverb(nn.Module):
    def __init__(self, latent=8, l1_weight=100.0):
        super().__init__()
        self.enc, self.g, self.d = Encoder(latent), Generator(latent), Discriminator(latent)
        self.g.apply(weights_init)
        self.d.apply(weights_init)
        self.l1_weight = l1_weight

    @property
    def device(self):
        return next(self.parameters()).device

    def configure_optimizers(self):
        g_optim = torch.optim.Adam(self.g.parameters(), lr=4e-4, betas=(0.0, 0.99))
        d_optim = torch.optim.Adam(self.d.parameters(), lr=2e-4, betas=(0.0, 0.99))
        enc_optim = torch.optim.Adam(self.enc.parameters(), lr=1e-5, betas=(0.0, 0.99))
        return [enc_optim, g_optim, d_optim]

    def forward(self, image):
        f = self.enc(image)
        z = torch.cat((f, torch.randn(f.size(0), 4, device=f.device)), 1)
        return self.g(z[:, :, None, None]), f

    def training_step(self, batch, batch_idx, optimizer_idx):
        spec, image = batch
        fake_spec, f = self.forward(image)
        if optimizer_idx in (0, 1):
            d_fake2 = self.d(fake_spec, f)
            G_loss1 = F.mse_loss(d_fake2, torch.ones(d_fake2.shape, device=self.device))
            G_loss2 = F.l1_loss(fake_spec, spec)
            G_loss = G_loss1 + self.l1_weight * G_loss2
            return {"loss": G_loss, "adv": G_loss1.detach(), "l1": G_loss2.detach()}
        d_fake = self.d(fake_spec.detach(), f.detach())
        d_real = self.d(spec, f.detach())
        D_loss = 0.5 * (F.mse_loss(d_fake, torch.zeros_like(d_fake)) + F.mse_loss(d_real, torch.ones_like(d_real)))
        return {"loss": D_loss}


def fit(model, batches):
    optims = model.configure_optimizers()
    for batch_idx, batch in enumerate(batches):
        logs = {}
        for idx, optim in enumerate(optims):
            out = model.training_step(batch, batch_idx, idx)
            for o in optims:
                o.zero_grad()
            out["loss"].backward()
            optim.step()
            logs[idx] = round(out["loss"].item(), 3)
        print(batch_idx, logs)


if __name__ == "__main__":
    torch.manual_seed(0)
    data = [(torch.rand(4, 1, 16, 16) * 2 - 1, torch.rand(4, 3, 16, 16)) for _ in range(6)]
    fit(Image2Reverb(), data)
