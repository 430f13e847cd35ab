# source: https://github.com/unit8co/darts/issues/2159
from functools import wraps
from typing import Tuple

import torch
from torch import Tensor, nn


class RINorm(nn.Module):
    def __init__(self, input_dim: int, eps: float = 1e-5, affine: bool = True):
        super().__init__()
        self.eps = eps
        self.affine = affine
        if affine:
            self.affine_weight = nn.Parameter(torch.ones(input_dim))
            self.affine_bias = nn.Parameter(torch.zeros(input_dim))

    def forward(self, x: Tensor) -> Tensor:
        self.mean = x.mean(dim=1, keepdim=True).detach()
        self.stdev = torch.sqrt(x.var(dim=1, keepdim=True, unbiased=False) + self.eps).detach()
        x = (x - self.mean) / self.stdev
        return x * self.affine_weight + self.affine_bias if self.affine else x

    def inverse(self, x: Tensor) -> Tensor:
        if self.affine:
            x = (x - self.affine_bias) / (self.affine_weight + self.eps * self.eps)
        return x * self.stdev + self.mean


def io_processor(forward):
    """Apply reversible instance norm to the target part of the inputs and undo it on the output."""

    @wraps(forward)
    def forward_wrapper(self, x_in: Tuple[Tensor, Tensor]):
        if self.rin is None:
            return forward(self, x_in)
        past_features, static = x_in
        past_features = torch.cat([self.rin(past_features[..., : self.n_targets]), past_features[..., self.n_targets:]], dim=-1)
        out = forward(self, (past_features, static))
        return self.rin.inverse(out)

    return forward_wrapper


class ForecastingModule(nn.Module):
    def __init__(self, input_chunk: int, output_chunk: int, n_targets: int, n_static: int, use_rin: bool = True):
        super().__init__()
        self.input_chunk, self.output_chunk, self.n_targets = input_chunk, output_chunk, n_targets
        self.rin = RINorm(n_targets) if use_rin else None
        self.block = nn.Sequential(
            nn.Linear(input_chunk * n_targets + n_static, 64), nn.ReLU(), nn.Linear(64, output_chunk * n_targets)
        )

    @io_processor
    def forward(self, x_in: Tuple[Tensor, Tensor]) -> Tensor:
        past, static = x_in
        last = past[:, -1:, : self.n_targets]
        h = torch.cat([(past - last).flatten(1), static], dim=1)
        return last + self.block(h).view(-1, self.output_chunk, self.n_targets)

    @torch.no_grad()
    def predict(self, past: Tensor, static: Tensor, n: int) -> Tensor:
        self.eval()
        history, chunks = past, []
        while sum(c.size(1) for c in chunks) < n:
            window = history[:, -self.input_chunk:]
            chunk = self((window, static))
            chunks.append(chunk)
            history = torch.cat([history, chunk], dim=1)
        return torch.cat(chunks, dim=1)[:, :n]


def make_windows(series: Tensor, n_in: int, n_out: int) -> Tuple[Tensor, Tensor]:
    starts = range(0, series.size(0) - n_in - n_out, 3)
    past = torch.stack([series[s:s + n_in] for s in starts])
    future = torch.stack([series[s + n_in:s + n_in + n_out] for s in starts])
    return past, future


def main() -> None:
    torch.manual_seed(0)
    t = torch.arange(400.0)
    series = (50 + 10 * torch.sin(t / 6)).unsqueeze(-1)
    past, future = make_windows(series, 24, 6)
    static = torch.zeros(past.size(0), 2)
    model = ForecastingModule(24, 6, 1, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(80):
        idx = torch.randperm(past.size(0))[:64]
        loss = nn.functional.mse_loss(model((past[idx], static[idx])), future[idx])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    forecast = model.predict(series[None, 300:324].clone(), static[:1], n=36)
    error = (forecast[0] - series[324:360]).abs().squeeze(-1)
    print("train", round(loss.item(), 3), "abs error per chunk", [round(e, 2) for e in error.view(6, 6).mean(1).tolist()])


if __name__ == "__main__":
    main()
