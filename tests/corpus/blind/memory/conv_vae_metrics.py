# target: script
# truth: RunningMetrics.update accumulates the attached metric tensors, so the running sums keep every step's autograd
#   graph alive for the whole epoch (for pixel_mse, which is never backpropagated, including its saved image-sized
#   tensors); memory grows with each batch until out of memory.
"""Convolutional VAE on small grayscale crops: training script with running metrics."""
import argparse
from collections import defaultdict

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class ConvVAE(nn.Module):
    def __init__(self, latent=16):
        super().__init__()
        self.enc = nn.Sequential(
            nn.Conv2d(1, 16, 4, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 4, 2, 1), nn.ReLU(), nn.Flatten()
        )
        self.to_stats = nn.Linear(32 * 4 * 4, 2 * latent)
        self.from_latent = nn.Linear(latent, 32 * 4 * 4)
        self.dec = nn.Sequential(
            nn.ConvTranspose2d(32, 16, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(16, 1, 4, 2, 1)
        )

    def forward(self, x):
        mu, log_var = self.to_stats(self.enc(x)).chunk(2, dim=1)
        z = mu + torch.randn_like(mu) * (0.5 * log_var).exp()
        return self.dec(self.from_latent(z).view(-1, 32, 4, 4)), mu, log_var


class RunningMetrics:
    """Sample-weighted means of named scalars, fetched once at the end of an epoch."""

    def __init__(self):
        self.sums, self.counts = defaultdict(float), defaultdict(int)

    def update(self, n, **values):
        for name, value in values.items():
            self.sums[name] = self.sums[name] + value * n  # error: DG502|DG508
            self.counts[name] += n

    def compute(self):
        return {k: float(self.sums[k]) / self.counts[k] for k in self.sums}


def compute_losses(model, x, beta):
    logits, mu, log_var = model(x)
    bce = F.binary_cross_entropy_with_logits(logits, x, reduction="none").flatten(1).sum(1).mean()
    kl = -0.5 * (1 + log_var - mu.pow(2) - log_var.exp()).sum(1).mean()
    pixel_mse = F.mse_loss(torch.sigmoid(logits), x)
    return {"loss": bce + beta * kl, "bce": bce, "kl": kl, "pixel_mse": pixel_mse}


def run_epoch(model, loader, optimizer, device, beta, metrics):
    model.train()
    for (x,) in loader:
        x = x.to(device, non_blocking=True)
        out = compute_losses(model, x, beta)
        optimizer.zero_grad(set_to_none=True)
        out["loss"].backward()
        optimizer.step()
        metrics.update(x.shape[0], **out)
    return metrics.compute()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--beta", type=float, default=1.0)
    args = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    images = torch.rand(256, 1, 16, 16)
    loader = DataLoader(TensorDataset(images), batch_size=args.batch_size, shuffle=True,
                        pin_memory=device.type == "cuda")
    model = ConvVAE().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(args.epochs):
        stats = run_epoch(model, loader, optimizer, device, args.beta, RunningMetrics())
        print(epoch, " ".join(f"{k}={v:.4f}" for k, v in stats.items()))


if __name__ == "__main__":
    main()
