"""Manual optimization in Lightning: two optimizers toggled, manual_backward for each."""
import lightning as L
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


def net(a, b):
    return nn.Sequential(nn.Linear(a, 24), nn.LeakyReLU(0.2), nn.Linear(24, b))


class LitGAN(L.LightningModule):
    def __init__(self, latent=4):
        super().__init__()
        self.automatic_optimization = False
        self.latent = latent
        self.generator, self.discriminator = net(latent, 2), net(2, 1)

    def noise(self, n):
        return torch.randn(n, self.latent, device=self.device)

    def training_step(self, batch, batch_idx):
        (real,) = batch
        opt_g, opt_d = self.optimizers()

        self.toggle_optimizer(opt_d)
        fake = self.generator(self.noise(real.size(0))).detach()
        loss_d = F.softplus(-self.discriminator(real)).mean() + F.softplus(self.discriminator(fake)).mean()
        opt_d.zero_grad()
        self.manual_backward(loss_d)
        opt_d.step()
        self.untoggle_optimizer(opt_d)

        self.toggle_optimizer(opt_g)
        loss_g = F.softplus(-self.discriminator(self.generator(self.noise(real.size(0))))).mean()
        opt_g.zero_grad()
        self.manual_backward(loss_g)
        opt_g.step()
        self.untoggle_optimizer(opt_g)
        self.log_dict({"loss_d": loss_d.detach(), "loss_g": loss_g.detach()}, on_step=False, on_epoch=True)

    def configure_optimizers(self):
        opt_g = torch.optim.Adam(self.generator.parameters(), lr=2e-3, betas=(0.5, 0.999))
        opt_d = torch.optim.Adam(self.discriminator.parameters(), lr=2e-3, betas=(0.5, 0.999))
        return opt_g, opt_d


if __name__ == "__main__":
    L.seed_everything(1, verbose=False)
    data = TensorDataset(torch.randn(256, 2) * 0.3 + torch.tensor([1.0, -1.0]))
    trainer = L.Trainer(
        max_epochs=4, accelerator="auto", devices=1, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, log_every_n_steps=4,
    )
    model = LitGAN()
    trainer.fit(model, DataLoader(data, batch_size=32, shuffle=True, drop_last=True))
    print({k: round(v.item(), 3) for k, v in trainer.callback_metrics.items()})
    model.eval()
    with torch.no_grad():
        print("mean of samples", [round(v, 2) for v in model.generator(model.noise(300)).mean(0).tolist()])
