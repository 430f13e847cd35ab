# source: https://github.com/WenjieDu/PyPOTS/issues/667
import copy
import math
from abc import abstractmethod

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


class BaseNNModel:
    def __init__(self, batch_size, epochs, patience=None, device=None):
        self.batch_size = batch_size
        self.epochs = epochs
        self.patience = math.inf if patience is None else patience
        self.original_patience = self.patience
        self.device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        self.model = None
        self.optimizer = None
        self.best_model_dict = None
        self.best_loss = float("inf")
        self.best_epoch = -1

    @abstractmethod
    def _assemble_input(self, data):
        raise NotImplementedError

    def _train_model(self, training_loader, val_loader=None):
        for epoch in range(1, self.epochs + 1):
            self.model.train()
            epoch_train_loss = []
            for data in training_loader:
                inputs = self._assemble_input(data)
                self.optimizer.zero_grad()
                loss = self.model(inputs)
                loss.backward()
                self.optimizer.step()
                epoch_train_loss.append(loss.item())
            mean_loss = sum(epoch_train_loss) / len(epoch_train_loss)
            if val_loader is not None:
                mean_loss = self._validate(val_loader)

            if mean_loss < self.best_loss:
                self.best_epoch = epoch
                self.best_loss = mean_loss
                self.best_model_dict = copy.deepcopy(self.model.state_dict())
                self.patience = self.original_patience
            else:
                self.patience -= 1
            if self.patience == 0:
                break
        print("Finished training. The best model is from epoch#%d." % self.best_epoch)

    def _validate(self, val_loader):
        self.model.eval()
        losses = []
        with torch.no_grad():
            for data in val_loader:
                losses.append(self.model(self._assemble_input(data)).item())
        return sum(losses) / len(losses)


class _Backbone(nn.Module):
    def __init__(self, n_steps, n_features, dim):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(2 * n_steps * n_features, dim), nn.ReLU(), nn.Linear(dim, n_steps * n_features)
        )

    def forward(self, inputs):
        X, mask, target = inputs["X"], inputs["missing_mask"], inputs["X_ori"]
        recon = self.net(torch.cat([X, mask], dim=-1).flatten(1)).view_as(X)
        held_out = inputs["indicating_mask"]
        return ((recon - target).pow(2) * held_out).sum() / held_out.sum().clamp(min=1)


class Imputer(BaseNNModel):
    def __init__(self, n_steps, n_features, dim=128, lr=5e-3, **kwargs):
        super().__init__(**kwargs)
        self.model = _Backbone(n_steps, n_features, dim).to(self.device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=lr)

    def _assemble_input(self, data):
        X_ori, missing_mask, indicating_mask = (d.to(self.device) for d in data)
        return {"X": X_ori * missing_mask, "missing_mask": missing_mask, "X_ori": X_ori,
                "indicating_mask": indicating_mask}

    def fit(self, train_set, val_set):
        train = DataLoader(train_set, batch_size=self.batch_size, shuffle=True)
        val = DataLoader(val_set, batch_size=self.batch_size)
        self._train_model(train, val)
        self.model.load_state_dict(self.best_model_dict)
        self.model.eval()
        return self._validate(val)


def physio_like(n, seed):
    g = torch.Generator().manual_seed(seed)
    phase = 6.28 * torch.rand(n, 1, 4, generator=g)
    x = torch.sin(torch.arange(12.0).view(1, -1, 1) / 2 + phase) + 0.3 * torch.randn(n, 12, 4, generator=g)
    keep = (torch.rand(x.shape, generator=g) > 0.3).float()
    return TensorDataset(x, keep, 1.0 - keep)


if __name__ == "__main__":
    torch.manual_seed(0)
    imputer = Imputer(12, 4, batch_size=16, epochs=25, patience=12)
    restored = imputer.fit(physio_like(48, 1), physio_like(48, 2))
    print("best validation loss %.4f, restored model %.4f" % (imputer.best_loss, restored))
