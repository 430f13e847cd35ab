"""Lightning hooks that keep predictions of an epoch, detached and on the host, and clear them at its end."""
import lightning as L
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


def rank_auc(scores, labels):
    """Area under the ROC curve by ranks; nan when one class is missing. Scores without ties are assumed."""
    pos = labels.bool()
    n_pos, n_neg = int(pos.sum()), int((~pos).sum())
    if n_pos == 0 or n_neg == 0:
        return float("nan")
    ranks = torch.empty(len(scores), dtype=torch.float64)
    ranks[scores.argsort()] = torch.arange(1, len(scores) + 1, dtype=torch.float64)
    return ((ranks[pos].sum() - n_pos * (n_pos + 1) / 2) / (n_pos * n_neg)).item()


class Scorer(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 1))
        self.criterion = nn.BCEWithLogitsLoss()
        self.outputs = []

    def forward(self, x):
        return self.net(x).squeeze(-1)

    def training_step(self, batch, _):
        x, y = batch
        return self.criterion(self(x), y)

    def on_validation_epoch_start(self):
        self.outputs.clear()

    def validation_step(self, batch, _):
        x, y = batch
        self.outputs.append((self(x).detach().cpu(), y.cpu()))

    def on_validation_epoch_end(self):
        scores, labels = (torch.cat(part) for part in zip(*self.outputs))
        self.outputs.clear()
        self.log("val_auc", rank_auc(scores, labels))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.2, momentum=0.9)


class PrintAUC(L.Callback):
    def on_validation_end(self, trainer, pl_module):
        print(f"epoch {trainer.current_epoch}: AUC {trainer.callback_metrics['val_auc'].item():.3f}")


def dataset(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 5, generator=g)
    noise = torch.randn(n, generator=g)
    return TensorDataset(x, (x[:, 0] - x[:, 1] + 0.5 * noise > 0).float())


if __name__ == "__main__":
    L.seed_everything(0, verbose=False)
    trainer = L.Trainer(
        max_epochs=3, accelerator="auto", devices=1, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, num_sanity_val_steps=0, callbacks=[PrintAUC()], log_every_n_steps=4,
    )
    trainer.fit(Scorer(), DataLoader(dataset(256, 0), 32, shuffle=True), DataLoader(dataset(128, 1), 64))
