# target: script
# source: https://github.com/sktime/pytorch-forecasting/pull/1924
# truth: each training step appends its log dictionary, with loss and prediction still attached to the graph, to a list that lives
#   for the whole epoch; all activations of all batches stay alive until the epoch ends. Silent until memory runs out.
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class QuantileLoss(nn.Module):
    def __init__(self, quantiles=(0.1, 0.5, 0.9)):
        super().__init__()
        self.register_buffer("q", torch.tensor(quantiles))

    def forward(self, pred, target):
        err = target.unsqueeze(-1) - pred
        return torch.maximum(self.q * err, (self.q - 1) * err).mean()


class BaseModel(nn.Module):
    """Minimal module with the hooks of a trainer framework."""

    def __init__(self):
        super().__init__()
        self.training_step_outputs = []

    def create_log(self, pred, y, loss, batch_idx):
        return {"loss": loss, "prediction": pred, "target": y, "batch_idx": batch_idx}  # error: DG501|DG508

    def training_step(self, batch, batch_idx):
        x, y = batch
        pred = self(x)
        loss = self.loss(pred, y)
        self.training_step_outputs.append(self.create_log(pred, y, loss, batch_idx))
        return loss

    def on_train_epoch_end(self):
        n = len(self.training_step_outputs)
        loss = sum(float(o["loss"]) for o in self.training_step_outputs) / n
        inside = torch.cat([
            ((o["target"] >= o["prediction"][..., 0]) & (o["target"] <= o["prediction"][..., 2])).float()
            for o in self.training_step_outputs
        ]).mean().item()
        self.training_step_outputs.clear()
        return {"train_loss": loss, "coverage": inside}


class WindowForecaster(BaseModel):
    def __init__(self, context=48, horizon=12, width=256):
        super().__init__()
        self.horizon = horizon
        self.loss = QuantileLoss()
        self.net = nn.Sequential(
            nn.Linear(context, width), nn.GELU(),
            nn.Linear(width, width), nn.GELU(),
            nn.Linear(width, width), nn.GELU(),
            nn.Linear(width, horizon * 3),
        )

    def forward(self, x):
        return self.net(x).view(-1, self.horizon, 3)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


class Trainer:
    def __init__(self, max_epochs=2):
        self.max_epochs = max_epochs

    def fit(self, model, loader):
        opt = model.configure_optimizers()
        for epoch in range(self.max_epochs):
            for i, batch in enumerate(loader):
                opt.zero_grad()
                model.training_step(batch, i).backward()
                opt.step()
            print(epoch, {k: round(v, 4) for k, v in model.on_train_epoch_end().items()})


def series_windows(n=4000, context=48, horizon=12):
    t = torch.arange(n + context + horizon, dtype=torch.float32)
    s = torch.sin(t * 0.26) + 0.5 * torch.sin(t * 0.037) + 0.1 * torch.randn(len(t))
    w = s.unfold(0, context + horizon, 1)
    return TensorDataset(w[:, :context].contiguous(), w[:, context:].contiguous())


if __name__ == "__main__":
    torch.manual_seed(3)
    Trainer().fit(WindowForecaster(), DataLoader(series_windows(), batch_size=64, shuffle=True))
