"""A helper that hides AMP: its own `backward` and `step` scale, unscale, clip and update."""
from contextlib import nullcontext
from typing import Iterable, Optional

import torch
from torch import Tensor, nn


class NativeScaler:
    """Call `backward(loss)` for each micro batch and `step()` once per optimizer step."""

    def __init__(self, optimizer: torch.optim.Optimizer, device: torch.device, clip: Optional[float] = None):
        self.optimizer = optimizer
        self.clip = clip
        self.device = device
        self.scaler = torch.amp.GradScaler(device.type, enabled=device.type == "cuda")

    def autocast(self):
        if self.device.type == "cuda":
            return torch.autocast("cuda", dtype=torch.float16)
        return nullcontext()

    def backward(self, loss: Tensor) -> None:
        self.scaler.scale(loss).backward()

    def step(self, parameters: Iterable[nn.Parameter]) -> None:
        if self.clip is not None:
            self.scaler.unscale_(self.optimizer)
            nn.utils.clip_grad_norm_(parameters, self.clip)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)

    def state_dict(self):
        return self.scaler.state_dict()

    def load_state_dict(self, state):
        self.scaler.load_state_dict(state)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 32), nn.Linear(32, 1)

    def forward(self, x):
        return self.b(torch.tanh(self.a(x))).squeeze(-1)


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    net = Net().to(device)
    helper = NativeScaler(torch.optim.Adam(net.parameters(), lr=1e-2), device, clip=1.0)
    accumulate = 2
    for step in range(40):
        running = torch.zeros((), device=device)
        for _ in range(accumulate):
            x = torch.randn(32, 8, device=device)
            with helper.autocast():
                loss = nn.functional.mse_loss(net(x).float(), x[:, 0] * x[:, 1]) / accumulate
            helper.backward(loss)
            running += loss.detach()
        helper.step(net.parameters())
        if step % 10 == 0:
            print(f"step {step}: {running.item():.4f}")
    helper.load_state_dict(helper.state_dict())


if __name__ == "__main__":
    main()
