"""Denoising autoencoder for sensor windows."""
import torch
import torch.nn as nn


class GaussianNoise(nn.Module):
    """Regulariser that perturbs activations relative to their spread.

    x: (batch, features) -> (batch, features)
    """

    def __init__(self, sigma: float = 0.1):
        super().__init__()
        self.sigma = sigma

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.sigma == 0.0:
            return x
        return x + self.sigma * x.detach().abs() * torch.randn_like(x)

    def extra_repr(self) -> str:
        return f"sigma={self.sigma}"


class DenoisingAutoencoder(nn.Module):
    """Reconstructs windows (batch, features) through a narrow code."""

    def __init__(self, features: int = 40, code: int = 8, sigma: float = 0.1):
        super().__init__()
        self.encoder = nn.Sequential(
            GaussianNoise(sigma),
            nn.Linear(features, 24),
            nn.ELU(),
            nn.Linear(24, code),
        )
        self.decoder = nn.Sequential(nn.Linear(code, 24), nn.ELU(), nn.Linear(24, features))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.decoder(self.encoder(x))

    def anomaly_score(self, x: torch.Tensor) -> torch.Tensor:
        """Mean squared reconstruction error per window, (batch,)."""
        return (self.forward(x) - x).pow(2).mean(dim=1)
