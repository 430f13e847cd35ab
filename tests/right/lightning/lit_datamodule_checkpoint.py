"""A LightningDataModule, ModelCheckpoint and EarlyStopping in a temporary folder, then the best model tested."""
import tempfile

import lightning as L
import torch
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split


class SineData(L.LightningDataModule):
    def __init__(self, n: int = 300, batch_size: int = 32, seed: int = 0):
        super().__init__()
        self.n, self.batch_size, self.seed = n, batch_size, seed

    def setup(self, stage: str) -> None:
        g = torch.Generator().manual_seed(self.seed)
        x = torch.rand(self.n, 1, generator=g) * 6
        data = TensorDataset(x, torch.sin(x) + 0.05 * torch.randn(self.n, 1, generator=g))
        # the same generator state in every stage keeps the parts apart
        self.train_set, self.val_set, self.test_set = random_split(data, [0.7, 0.15, 0.15], generator=g)

    def train_dataloader(self):
        return DataLoader(self.train_set, batch_size=self.batch_size, shuffle=True)

    def val_dataloader(self):
        return DataLoader(self.val_set, batch_size=self.batch_size)

    def test_dataloader(self):
        return DataLoader(self.test_set, batch_size=self.batch_size)


class Regressor(L.LightningModule):
    def __init__(self, width: int = 32):
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(nn.Linear(1, width), nn.Tanh(), nn.Linear(width, 1))

    def _shared(self, batch, stage):
        x, y = batch
        loss = nn.functional.mse_loss(self.net(x), y)
        self.log(f"{stage}_loss", loss, on_epoch=True, on_step=False)
        return loss

    def training_step(self, batch, batch_idx):
        return self._shared(batch, "train")

    def validation_step(self, batch, batch_idx):
        self._shared(batch, "val")

    def test_step(self, batch, batch_idx):
        self._shared(batch, "test")

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=2e-2)


def main():
    L.seed_everything(0, verbose=False)
    data = SineData()
    with tempfile.TemporaryDirectory() as folder:
        best = ModelCheckpoint(dirpath=folder, monitor="val_loss", mode="min", save_top_k=1)
        stop = EarlyStopping(monitor="val_loss", mode="min", patience=3)
        trainer = L.Trainer(
            max_epochs=6, accelerator="auto", devices=1, logger=False, callbacks=[best, stop],
            enable_progress_bar=False, enable_model_summary=False, log_every_n_steps=5,
        )
        trainer.fit(Regressor(), datamodule=data)
        model = Regressor.load_from_checkpoint(best.best_model_path)
        result = trainer.test(model, datamodule=data, verbose=False)
    print(f"best validation {best.best_model_score.item():.4f}, test {result[0]['test_loss']:.4f}")


if __name__ == "__main__":
    main()
