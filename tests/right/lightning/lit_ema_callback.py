"""An EMA callback for Lightning: updated after each batch, swapped in for validation and out again."""
import copy

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class EMACallback(L.Callback):
    def __init__(self, decay=0.9):
        self.decay = decay
        self.shadow = None
        self.backup = None

    def on_fit_start(self, trainer, pl_module):
        self.shadow = {k: v.detach().clone() for k, v in pl_module.state_dict().items()}

    @torch.no_grad()
    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        for k, v in pl_module.state_dict().items():
            if v.is_floating_point():
                self.shadow[k].lerp_(v, 1 - self.decay)
            else:
                self.shadow[k].copy_(v)

    def on_validation_start(self, trainer, pl_module):
        if self.shadow is None:
            return
        self.backup = copy.deepcopy(pl_module.state_dict())
        pl_module.load_state_dict(self.shadow)

    def on_validation_end(self, trainer, pl_module):
        if self.backup is not None:
            pl_module.load_state_dict(self.backup)
            self.backup = None


class Model(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Linear(24, 2))

    def training_step(self, batch, batch_idx):
        x, y = batch
        return nn.functional.cross_entropy(self.net(x), y)

    def validation_step(self, batch, batch_idx):
        x, y = batch
        self.log("val_acc", (self.net(x).argmax(1) == y).float().mean())

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.3)


def make_loader(n, train):
    x = torch.randn(n, 6)
    y = (x.sum(dim=1) > 0).long()
    return DataLoader(TensorDataset(x, y), batch_size=32, shuffle=train, drop_last=train)


if __name__ == "__main__":
    L.seed_everything(0, verbose=False)
    model, ema = Model(), EMACallback()
    trainer = L.Trainer(
        max_epochs=3, accelerator="auto", devices=1, logger=False, enable_checkpointing=False, callbacks=[ema],
        enable_progress_bar=False, enable_model_summary=False, log_every_n_steps=4,
    )
    trainer.fit(model, make_loader(256, True), make_loader(128, False))
    print(f"validation accuracy with averaged weights {trainer.callback_metrics['val_acc'].item():.3f}")
