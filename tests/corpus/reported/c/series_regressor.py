# source: https://github.com/sktime/sktime/issues/10931
# target: BaseDeepRegressor.fit
# truth: the network returns (batch, 1) and the data set yields targets of shape (batch,); the loss broadcasts both to
#   (batch, batch), so every prediction is pulled to the mean of the batch's targets
from __future__ import annotations

import abc

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset


class SeriesDataset(Dataset):
    def __init__(self, X: Tensor, y: Tensor | None = None):
        self.X = X.float()
        self.y = None if y is None else y.float()

    def __len__(self) -> int:
        return len(self.X)

    def __getitem__(self, i: int):
        inputs = {"X": self.X[i]}
        return inputs if self.y is None else (inputs, self.y[i])


class FCNNetwork(nn.Module):
    def __init__(self, n_dims: int, filters: tuple[int, ...] = (8, 16), kernels: tuple[int, ...] = (5, 3)):
        super().__init__()
        layers, previous = [], n_dims
        for width, kernel in zip(filters, kernels):
            layers += [nn.Conv1d(previous, width, kernel, padding="same"), nn.ReLU()]
            previous = width
        self.convs = nn.Sequential(*layers)
        self.out = nn.Linear(previous, 1)

    def forward(self, X: Tensor) -> Tensor:
        return self.out(self.convs(X).mean(dim=-1))


class BaseDeepRegressor(abc.ABC):
    """Template for time series regressors on panels of shape (instances, dimensions, time)."""

    def __init__(self, num_epochs: int = 30, batch_size: int = 8, lr: float = 0.02, random_state: int | None = None):
        self.num_epochs = num_epochs
        self.batch_size = batch_size
        self.lr = lr
        self.random_state = random_state
        self.history_: list[float] = []

    @abc.abstractmethod
    def _build_network(self, n_dims: int) -> nn.Module:
        ...

    def _build_dataloader(self, X: Tensor, y: Tensor | None = None, shuffle: bool = False) -> DataLoader:
        return DataLoader(SeriesDataset(X, y), batch_size=self.batch_size, shuffle=shuffle)

    def fit(self, X: Tensor, y: Tensor) -> BaseDeepRegressor:
        if self.random_state is not None:
            torch.manual_seed(self.random_state)
        self.network = self._build_network(X.shape[1])
        self._criterion = nn.MSELoss()
        self._optimizer = torch.optim.Adam(self.network.parameters(), lr=self.lr)
        loader = self._build_dataloader(X, y, shuffle=True)
        self.network.train()
        for _ in range(self.num_epochs):
            self.history_.append(self._run_epoch(loader))
        return self

    def _run_epoch(self, loader: DataLoader) -> float:
        total, count = 0.0, 0
        for inputs, outputs in loader:
            y_pred = self.network(**inputs)
            loss = self._criterion(y_pred, outputs)  # culprit
            self._optimizer.zero_grad()
            loss.backward()
            self._optimizer.step()
            total += loss.item() * len(outputs)
            count += len(outputs)
        return total / count

    @torch.no_grad()
    def predict(self, X: Tensor) -> Tensor:
        self.network.eval()
        return torch.cat([self.network(**inputs).squeeze(-1) for inputs in self._build_dataloader(X)])

    def score(self, X: Tensor, y: Tensor) -> float:
        residual = (self.predict(X) - y).pow(2).sum()
        return float(1 - residual / (y - y.mean()).pow(2).sum())


class FCNRegressor(BaseDeepRegressor):
    def _build_network(self, n_dims: int) -> nn.Module:
        return FCNNetwork(n_dims)


if __name__ == "__main__":
    torch.manual_seed(0)
    level = torch.rand(32)
    panel = torch.randn(32, 2, 12) * 0.1 + level[:, None, None]
    target = 3 * level + 1
    model = FCNRegressor(random_state=1).fit(panel, target)
    print("last losses", [round(v, 3) for v in model.history_[-3:]], "R2", round(model.score(panel, target), 3))
