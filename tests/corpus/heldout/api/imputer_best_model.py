# target: Imputer.fit
# source: https://github.com/WenjieDu/PyPOTS/issues/667
# truth: state_dict() returns references to the live weights, so the "best" dictionary keeps changing with training; at the end the last
#   (overfitted) weights are "restored" instead of those of the best epoch. Silent.
import torch
import torch.nn as nn


class MaskedAutoencoder(nn.Module):
    def __init__(self, n_steps, n_features, width=128):
        super().__init__()
        d = n_steps * n_features
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(2 * d, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, d))
        self.shape = (n_steps, n_features)

    def forward(self, x, mask):
        return self.net(torch.cat([x * mask, mask], dim=-1)).view(-1, *self.shape)


class EarlyStopper:
    def __init__(self, patience):
        self.original = self.left = patience

    def better(self):
        self.left = self.original

    def worse(self):
        self.left -= 1
        return self.left <= 0


class Imputer:
    """Fit on incomplete series, keep the model of the best validation epoch."""

    def __init__(self, n_steps, n_features, epochs=60, patience=15, lr=3e-3, batch_size=16):
        self.model = MaskedAutoencoder(n_steps, n_features)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=lr)
        self.epochs, self.batch_size = epochs, batch_size
        self.stopper = EarlyStopper(patience)
        self.best_loss = float("inf")
        self.best_epoch = -1
        self.best_model_dict = None

    def _loss(self, x, observed, hidden):
        out = self.model(x, observed * (1 - hidden))
        return ((out - x) ** 2 * observed * hidden).sum() / (observed * hidden).sum().clamp(min=1)

    def _train_model(self, train_set, val_set):
        for epoch in range(self.epochs):
            self.model.train()
            for idx in torch.randperm(len(train_set["X"])).split(self.batch_size):
                x, obs = train_set["X"][idx], train_set["observed"][idx]
                loss = self._loss(x, obs, (torch.rand_like(x) < 0.2).float())
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
            val_loss = self.validate(val_set)
            if val_loss < self.best_loss:
                self.best_epoch, self.best_loss = epoch, val_loss
                self.best_model_dict = self.model.state_dict()  # error: DG750
                self.stopper.better()
            elif self.stopper.worse():
                print(f"stopped after epoch {epoch}")
                break

    @torch.no_grad()
    def validate(self, s):
        self.model.eval()
        return self._loss(s["X"], s["observed"], s["hidden"]).item()

    def fit(self, train_set, val_set):
        self._train_model(train_set, val_set)
        self.model.load_state_dict(self.best_model_dict)
        self.model.eval()
        return self


def random_walks(n, n_steps=12, n_features=3, missing=0.1):
    base = torch.randn(n, n_steps, 1).cumsum(1)
    x = 0.5 * base + 0.3 * torch.randn(n, 1, n_features) + 0.15 * torch.randn(n, n_steps, n_features)
    observed = (torch.rand_like(x) > missing).float()
    return {"X": x, "observed": observed, "hidden": (torch.rand_like(x) < 0.2).float()}


if __name__ == "__main__":
    torch.manual_seed(2023)
    train_set, val_set = random_walks(80), random_walks(200)
    imputer = Imputer(12, 3).fit(train_set, val_set)
    print(f"best epoch {imputer.best_epoch}: validation loss {imputer.best_loss:.5f}")
    print(f"loss of the restored model: {imputer.validate(val_set):.5f}")
