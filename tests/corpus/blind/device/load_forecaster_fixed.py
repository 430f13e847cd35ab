# target: train_model
"""Day-ahead electricity load forecasting with a Lightning-like module and a minimal runner."""
import torch
from torch import nn
import torch.nn.functional as F


class LoadForecaster(nn.Module):
    def __init__(self, n_features: int, horizon: int = 24, hidden: int = 64, layers: int = 2):
        super().__init__()
        self.hidden, self.layers = hidden, layers
        self.rnn = nn.GRU(n_features, hidden, num_layers=layers, batch_first=True)
        self.head = nn.Sequential(nn.LayerNorm(hidden), nn.Linear(hidden, horizon))
        self.static = nn.Linear(3, hidden)  # location, season, weekday type

    def init_state(self, static: torch.Tensor) -> torch.Tensor:
        """First layer starts from the static covariates, the others from zero."""
        first = torch.tanh(self.static(static))
        state = torch.zeros(self.layers, static.size(0), self.hidden, device=static.device)
        state[0] = first
        return state

    def forward(self, x, static):
        out, _ = self.rnn(x, self.init_state(static))
        return self.head(out[:, -1])

    def _shared(self, batch):
        x, static, y = batch
        # predict the change against the last observed load (feature 0)
        return F.smooth_l1_loss(self(x, static) + x[:, -1, :1], y)

    def training_step(self, batch, batch_idx):
        return self._shared(batch)

    def validation_step(self, batch, batch_idx):
        return self._shared(batch)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, weight_decay=1e-4)


def to_device(batch, device):
    return tuple(t.to(device, non_blocking=True) for t in batch)


def train_model(module, train_loader, val_loader, max_epochs: int = 5, device: str = "cuda"):
    """Fit and return the validation loss after every epoch."""
    module.to(device)
    optimizer = module.configure_optimizers()
    history = []
    for _ in range(max_epochs):
        module.train()
        for i, batch in enumerate(train_loader):
            loss = module.training_step(to_device(batch, device), i)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
        module.eval()
        with torch.no_grad():
            losses = [module.validation_step(to_device(b, device), i) for i, b in enumerate(val_loader)]
        history.append(torch.stack(losses).mean().item())
    return history
