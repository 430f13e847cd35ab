# source: https://github.com/wangle53/CSA-CDGAN/issues/5
# target: ChangeGAN.optimize_g
# truth: the discriminator's answer is detached in the generator step, so the adversarial term is a constant: it adds
#   to the reported loss but sends no gradient to the generator, whatever its weight is
import torch
import torch.nn as nn


def block(cin, cout, stride):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, stride=stride, padding=1), nn.BatchNorm2d(cout), nn.LeakyReLU(0.2))


class NetG(nn.Module):
    """Change map from an image pair."""

    def __init__(self, nf=16):
        super().__init__()
        self.down1 = block(6, nf, 2)
        self.down2 = block(nf, nf * 2, 2)
        self.up1 = nn.Sequential(nn.ConvTranspose2d(nf * 2, nf, 4, 2, 1), nn.ReLU())
        self.up2 = nn.ConvTranspose2d(nf * 2, 1, 4, 2, 1)

    def forward(self, before, after):
        d1 = self.down1(torch.cat([before, after], 1))
        d2 = self.down2(d1)
        return torch.sigmoid(self.up2(torch.cat([self.up1(d2), d1], 1)))


class NetD(nn.Module):
    def __init__(self, nf=16):
        super().__init__()
        self.features = nn.Sequential(block(1, nf, 2), block(nf, nf * 2, 2))
        self.score = nn.Conv2d(nf * 2, 1, 1)

    def forward(self, change_map):
        return self.score(self.features(change_map)).mean(dim=(1, 2, 3))


class ChangeGAN:
    def __init__(self, w_adv=1.0, w_con=50.0, lr=2e-4, device="cpu"):
        self.device = torch.device(device)
        self.netg = NetG().to(self.device)
        self.netd = NetD().to(self.device)
        self.w_adv = w_adv
        self.w_con = w_con
        self.l_adv = nn.BCEWithLogitsLoss()
        self.l_con = nn.L1Loss()
        self.optimizer_g = torch.optim.Adam(self.netg.parameters(), lr=lr, betas=(0.5, 0.999))
        self.optimizer_d = torch.optim.Adam(self.netd.parameters(), lr=lr, betas=(0.5, 0.999))

    def set_input(self, before, after, label):
        self.before = before.to(self.device)
        self.after = after.to(self.device)
        self.label = label.to(self.device)

    def forward(self):
        self.fake = self.netg(self.before, self.after)

    def optimize_d(self):
        pred_real = self.netd(self.label)
        pred_fake = self.netd(self.fake.detach())
        err_real = self.l_adv(pred_real, torch.ones_like(pred_real))
        err_fake = self.l_adv(pred_fake, torch.zeros_like(pred_fake))
        self.err_d = 0.5 * (err_real + err_fake)
        self.optimizer_d.zero_grad()
        self.err_d.backward()
        self.optimizer_d.step()

    def optimize_g(self):
        pred_fake = self.netd(self.fake).detach()  # culprit
        self.err_g_adv = self.l_adv(pred_fake, torch.ones_like(pred_fake))
        self.err_g_con = self.l_con(self.fake, self.label)
        self.err_g = self.w_adv * self.err_g_adv + self.w_con * self.err_g_con
        self.optimizer_g.zero_grad()
        self.err_g.backward()
        self.optimizer_g.step()

    def step(self):
        self.netg.train()
        self.netd.train()
        self.forward()
        self.optimize_d()
        self.optimize_g()

    def errors(self):
        return {k: getattr(self, k).item() for k in ("err_d", "err_g", "err_g_adv", "err_g_con")}


if __name__ == "__main__":
    torch.manual_seed(0)
    gan = ChangeGAN(device="cuda" if torch.cuda.is_available() else "cpu")
    for i in range(8):
        before = torch.rand(4, 3, 32, 32)
        label = (torch.rand(4, 1, 32, 32) > 0.8).float()
        after = before * (1 - label) + torch.rand_like(before) * label
        gan.set_input(before, after, label)
        gan.step()
    print({k: round(v, 4) for k, v in gan.errors().items()})
