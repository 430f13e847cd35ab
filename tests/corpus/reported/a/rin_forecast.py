# source: https://github.com/unit8co/darts/pull/2160
# target: ForecastModule.forward
# truth: the wrapper writes the normalised target back into the tensor the caller passed, so the caller's data change with
#   each forward: a second pass over the same window (next epoch, predict) starts from already normalised values
from __future__ import annotations

import argparse
from functools import wraps

import torch
from torch import Tensor, nn


class RINorm(nn.Module):
    """Reversible instance normalisation over the time axis."""

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
        if self.affine:
            x = x * self.affine_weight + self.affine_bias
        return x

    def inverse(self, x: Tensor) -> Tensor:
        if self.affine:
            x = (x - self.affine_bias) / (self.affine_weight + self.eps * self.eps)
        return x * self.stdev + self.mean


def io_processor(forward):
    """Normalise the target components before the forward and restore the scale of its output."""

    @wraps(forward)
    def forward_wrapper(self, x_in):
        if not self.use_reversible_instance_norm:
            return forward(self, x_in)
        past_features, static = x_in
        past_features[:, :, : self.n_targets] = self.rin(past_features[:, :, : self.n_targets])  # culprit
        return self.rin.inverse(forward(self, (past_features, static)))

    return forward_wrapper


class ForecastModule(nn.Module):
    def __init__(self, input_chunk: int, output_chunk: int, n_targets: int, n_covariates: int, width: int = 64, rin: bool = True):
        super().__init__()
        self.n_targets = n_targets
        self.output_chunk = output_chunk
        self.use_reversible_instance_norm = rin
        if rin:
            self.rin = RINorm(n_targets, affine=False)
        self.body = nn.Sequential(
            nn.Flatten(),
            nn.Linear(input_chunk * (n_targets + n_covariates), width),
            nn.ReLU(),
            nn.Linear(width, output_chunk * n_targets),
        )
        self.static = nn.Linear(1, output_chunk * n_targets)

    @io_processor
    def forward(self, x_in: tuple[Tensor, Tensor]) -> Tensor:
        past, static = x_in
        out = self.body(past) + self.static(static)
        return out.view(-1, self.output_chunk, self.n_targets)


class SeriesWindows:
    def __init__(self, n_series: int, length: int, input_chunk: int, output_chunk: int, batch_size: int = 32):
        t = torch.arange(length) / 24 * 6.2832
        level = torch.rand(n_series, 1) * 50 + 20
        values = level + 5 * torch.sin(t + torch.rand(n_series, 1)) + torch.randn(n_series, length)
        hour = torch.sin(t).expand(n_series, -1)
        stacked = torch.stack([values, hour], dim=-1)
        window = input_chunk + output_chunk
        pieces = [stacked[:, i : i + window] for i in range(0, length - window + 1, window)]
        data = torch.cat(pieces)
        static = level.repeat(len(pieces), 1) / 100
        self.batches = []
        for index in torch.randperm(len(data)).split(batch_size):
            past = data[index, :input_chunk]
            future = data[index, input_chunk:, :1]
            self.batches.append(((past, static[index]), future))

    def __iter__(self):
        return iter(self.batches)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--input-chunk", type=int, default=24)
    parser.add_argument("--output-chunk", type=int, default=6)
    args = parser.parse_args()
    torch.manual_seed(0)
    windows = SeriesWindows(16, 240, args.input_chunk, args.output_chunk)
    model = ForecastModule(args.input_chunk, args.output_chunk, 1, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(args.epochs):
        total, count = 0.0, 0
        for inputs, future in windows:
            loss = (model(inputs) - future).abs().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total, count = total + loss.item(), count + 1
        print(f"epoch {epoch} mae {total / count:.3f}")


if __name__ == "__main__":
    main()
