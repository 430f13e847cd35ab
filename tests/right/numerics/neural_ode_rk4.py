"""A neural ODE integrated by a fixed-step RK4 scheme, fitted to a spiral."""
from typing import Callable

import torch
import torch.nn as nn
from torch import Tensor


def rk4(f: Callable[[Tensor, Tensor], Tensor], y0: Tensor, times: Tensor) -> Tensor:
    """States at all `times`, stacked along a new first axis."""
    states = [y0]
    y = y0
    for t0, t1 in zip(times[:-1], times[1:]):
        h = t1 - t0
        k1 = f(t0, y)
        k2 = f(t0 + h / 2, y + h / 2 * k1)
        k3 = f(t0 + h / 2, y + h / 2 * k2)
        k4 = f(t1, y + h * k3)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        states.append(y)
    return torch.stack(states)


class Dynamics(nn.Module):
    def __init__(self, hidden: int = 32):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, hidden), nn.Tanh(), nn.Linear(hidden, 2))
        for m in self.net:
            if isinstance(m, nn.Linear):
                nn.init.normal_(m.weight, std=0.1)
                nn.init.zeros_(m.bias)

    def forward(self, t: Tensor, y: Tensor) -> Tensor:
        return self.net(y)


def main() -> None:
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    matrix = torch.tensor([[-0.1, 2.0], [-2.0, -0.1]], device=device)
    times = torch.linspace(0, 1, 11, device=device)
    y0 = torch.randn(64, 2, device=device)
    with torch.no_grad():
        truth = rk4(lambda t, y: y @ matrix.T, y0, times)
        exact = torch.matrix_exp(matrix) @ y0.T
        torch.testing.assert_close(truth[-1], exact.T, atol=1e-3, rtol=1e-3)

    model = Dynamics().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    for it in range(60):
        pick = torch.randint(64, (16,), device=device)
        loss = (rk4(model, truth[0, pick], times) - truth[:, pick]).abs().mean()
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        if it % 20 == 0:
            print(f"iteration {it}: {loss.item():.3f}")
    with torch.no_grad():
        print(f"final {(rk4(model, y0, times) - truth).abs().mean().item():.3f}")


if __name__ == "__main__":
    main()
