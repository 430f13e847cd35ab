"""Trainer options for accumulation and clipping, and predict_step with results gathered."""
import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Polynomials(Dataset):
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.coef = torch.randn(n, 3, generator=g)

    def __len__(self):
        return len(self.coef)

    def __getitem__(self, i):
        a, b, c = self.coef[i]
        t = torch.linspace(-1, 1, 8)
        return {"curve": a * t**2 + b * t + c, "coef": self.coef[i]}


class CoefficientNet(L.LightningModule):
    def __init__(self, lr=2e-2):
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 3))

    def training_step(self, batch, batch_idx):
        loss = nn.functional.mse_loss(self.net(batch["curve"]), batch["coef"])
        self.log("loss", loss, on_step=False, on_epoch=True)
        return loss

    def on_train_epoch_end(self):
        if self.current_epoch % 2 == 0:
            print(f"epoch {self.current_epoch}: {self.trainer.callback_metrics['loss'].item():.4f}")

    def predict_step(self, batch, batch_idx):
        return self.net(batch["curve"])

    def configure_optimizers(self):
        opt = torch.optim.Adam(self.parameters(), lr=self.hparams.lr)
        sched = torch.optim.lr_scheduler.OneCycleLR(opt, self.hparams.lr, total_steps=self.trainer.estimated_stepping_batches)
        return [opt], [{"scheduler": sched, "interval": "step"}]


def main():
    L.seed_everything(2, verbose=False)
    trainer = L.Trainer(
        max_epochs=5, accumulate_grad_batches=2, gradient_clip_val=1.0, accelerator="auto", devices=1, logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False, log_every_n_steps=2,
    )
    model = CoefficientNet()
    trainer.fit(model, DataLoader(Polynomials(256, 0), batch_size=16, shuffle=True))
    test = Polynomials(64, 1)
    predictions = torch.cat(trainer.predict(model, DataLoader(test, batch_size=32))).cpu()
    print(f"mean absolute error of coefficients {(predictions - test.coef).abs().mean().item():.3f}")


if __name__ == "__main__":
    main()
