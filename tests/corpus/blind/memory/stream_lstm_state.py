# target: AnomalyDetector.process
# source: https://github.com/pytorch/pytorch/issues/2198
# truth: the detector keeps the LSTM state between calls with its graph attached (no no_grad, no detach); every processed chunk hangs on
#   to the graph of all earlier ones, so memory grows without bound while the monitor runs.
import math
from typing import Iterator, Optional, Tuple

import torch
from torch import Tensor, nn

State = Tuple[Tensor, Tensor]


class NextStep(nn.Module):
    """Predicts the next sample of a multi-channel sensor."""

    def __init__(self, channels: int = 4, hidden: int = 64):
        super().__init__()
        self.lstm = nn.LSTM(channels, hidden, batch_first=True)
        self.out = nn.Linear(hidden, channels)

    def forward(self, x: Tensor, state: Optional[State] = None) -> Tuple[Tensor, State]:
        h, state = self.lstm(x, state)
        return self.out(h), state


class AnomalyDetector:
    def __init__(self, model: NextStep, threshold: float = 4.0, momentum: float = 0.98):
        self.model = model.eval()
        self.threshold = threshold
        self.momentum = momentum
        self.state: Optional[State] = None
        self.level: Optional[float] = None
        self.alarms: list = []
        self.seen = 0

    def process(self, chunk: Tensor) -> float:
        """chunk: (time, channels); returns the mean prediction error of the chunk."""
        x = chunk.unsqueeze(0)
        pred, self.state = self.model(x[:, :-1], self.state)  # error: DG108|DG506
        err = (pred - x[:, 1:]).pow(2).mean().item()
        if self.level is not None and err > self.threshold * self.level:
            self.alarms.append(self.seen)
        else:
            self.level = err if self.level is None else self.momentum * self.level + (1 - self.momentum) * err
        self.seen += chunk.size(0)
        return err


def sensor(n_chunks: int, chunk: int = 32, fault_at: int = 150) -> Iterator[Tensor]:
    phase = torch.tensor([0.0, 0.7, 1.9, 2.6])
    for c in range(n_chunks):
        t = torch.arange(c * chunk, (c + 1) * chunk).unsqueeze(1) * 0.2
        x = torch.sin(t + phase) + 0.05 * torch.randn(chunk, 4)
        if fault_at <= c < fault_at + 3:
            x = x + 1.5 * torch.randn(chunk, 4)
        yield x


def pretrain(model: NextStep, iterations: int = 120) -> None:
    opt = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(iterations):
        start = torch.rand(16, 1, 1) * 2 * math.pi
        t = torch.arange(40).view(1, -1, 1) * 0.2 + start
        x = torch.sin(t + torch.tensor([0.0, 0.7, 1.9, 2.6])) + 0.05 * torch.randn(16, 40, 4)
        loss = (model(x[:, :-1])[0] - x[:, 1:]).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    torch.manual_seed(0)
    net = NextStep()
    pretrain(net)
    detector = AnomalyDetector(net)
    for chunk in sensor(250):
        detector.process(chunk)
    print("samples", detector.seen, "level", round(detector.level, 4), "alarms", detector.alarms)
