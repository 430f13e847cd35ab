# source: https://github.com/google-research/timesfm/pull/507
from typing import Tuple

import torch
import torch.nn.functional as F
from torch import nn

TOLERANCE = 1e-6


def update_running_stats(
    n: torch.Tensor, mu: torch.Tensor, sigma: torch.Tensor, x: torch.Tensor, mask: torch.Tensor
) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Merge the moments of the unmasked values of `x` (batch, patch_len) into the running ones."""
    keep = (~mask).to(x.dtype)
    inc_n = keep.sum(-1)
    safe_n = inc_n.clamp(min=1.0)
    inc_mu = (x * keep).sum(-1) / safe_n
    inc_var = (((x - inc_mu.unsqueeze(-1)) * keep) ** 2).sum(-1) / safe_n

    new_n = n + inc_n
    safe_new_n = new_n.clamp(min=1.0)
    new_mu = (n * mu + inc_n * inc_mu) / safe_new_n
    spread = n * (sigma ** 2 + (mu - new_mu) ** 2) + inc_n * (inc_var + (inc_mu - new_mu) ** 2)
    new_var = spread / safe_new_n
    new_sigma = torch.sqrt(torch.clamp(new_var, min=TOLERANCE ** 2 / 4))
    return new_n, new_mu, new_sigma


def revin(x: torch.Tensor, mu: torch.Tensor, sigma: torch.Tensor, reverse: bool = False) -> torch.Tensor:
    mu, sigma = mu.unsqueeze(-1), sigma.unsqueeze(-1)
    sigma = torch.where(sigma < TOLERANCE, torch.ones_like(sigma), sigma)
    return x * sigma + mu if reverse else (x - mu) / sigma


class ResidualBlock(nn.Module):
    def __init__(self, d_in: int, d_hidden: int, d_out: int):
        super().__init__()
        self.hidden, self.output = nn.Linear(d_in, d_hidden), nn.Linear(d_hidden, d_out)
        self.residual = nn.Linear(d_in, d_out)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.output(F.silu(self.hidden(x))) + self.residual(x)


class PatchedForecaster(nn.Module):
    def __init__(self, patch_len: int = 8, horizon: int = 8, d_model: int = 32):
        super().__init__()
        self.patch_len, self.horizon = patch_len, horizon
        self.sensor_filter = nn.Conv1d(1, 1, 3, padding=1, padding_mode="replicate")
        self.tokenizer = ResidualBlock(2 * patch_len, d_model, d_model)
        layer = nn.TransformerEncoderLayer(d_model, 2, 2 * d_model, dropout=0.0, batch_first=True)
        self.stack = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.projection = ResidualBlock(d_model, d_model, horizon)

    def forward(self, series: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        smooth = self.sensor_filter(series.unsqueeze(1)).squeeze(1)
        patches = smooth.unflatten(-1, (-1, self.patch_len))
        masks = mask.unflatten(-1, (-1, self.patch_len))
        n = mu = sigma = series.new_zeros(series.size(0))
        tokens = []
        for i in range(patches.size(1)):
            n, mu, sigma = update_running_stats(n, mu, sigma, patches[:, i], masks[:, i])
            normed = revin(patches[:, i], mu, sigma).masked_fill(masks[:, i], 0.0)
            tokens.append(torch.cat([normed, masks[:, i].to(normed.dtype)], dim=-1))
        hidden = self.stack(self.tokenizer(torch.stack(tokens, dim=1)))
        return revin(self.projection(hidden[:, -1]), mu, sigma, reverse=True)

    def training_loss(self, series: torch.Tensor, mask: torch.Tensor, future: torch.Tensor) -> torch.Tensor:
        return F.huber_loss(self(series, mask), future)


def load_panel(n: int) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    t = torch.arange(40.0)
    values = torch.sin(t / 3 + 6.28 * torch.rand(n, 1)) * (1 + 2 * torch.rand(n, 1)) + 5 * torch.rand(n, 1)
    night = torch.arange(n) % 6 == 0
    values[night, :12] = 0.0
    series, future = values[:, :32], values[:, 32:]
    return series, torch.rand(n, 32) < 0.05, future


def main() -> None:
    torch.manual_seed(0)
    model = PatchedForecaster()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(8):
        loss = model.training_loss(*load_panel(24))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
