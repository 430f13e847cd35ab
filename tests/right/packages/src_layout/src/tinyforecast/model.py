"""The network."""
from torch import Tensor, nn


class Forecaster(nn.Module):
    def __init__(self, hidden: int = 24):
        super().__init__()
        self.rnn = nn.GRU(1, hidden, batch_first=True)
        self.out = nn.Linear(hidden, 1)

    def forward(self, window: Tensor) -> Tensor:
        _, last = self.rnn(window.unsqueeze(-1))
        return self.out(last.squeeze(0))
