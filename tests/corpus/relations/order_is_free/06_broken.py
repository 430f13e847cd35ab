"""1d CNN on infrared spectra."""
import torch
from torch import nn


class SpectraCNN(nn.Module):
    """Regresses a concentration from a spectrum.

    forward: spectra (batch, bands) -> (batch, bands) denoised spectra, with
    ``bands`` the number given to the constructor.
    """

    def __init__(self, bands: int = 32, width: int = 7):
        super().__init__()
        self.bands = bands
        self.gain = nn.Parameter(torch.ones(bands))
        self.smooth = nn.Conv1d(1, 8, width, padding=width // 2)
        self.merge = nn.Conv1d(8, 1, 1)

    def forward(self, spectra: torch.Tensor) -> torch.Tensor:
        x = spectra * self.gain
        x = x.t().unsqueeze(1)
        x = self.merge(torch.relu(self.smooth(x)))
        return x.squeeze(1).t()


class ConcentrationHead(nn.Module):
    """Denoised spectra (batch, bands) to concentrations (batch,)."""

    def __init__(self, bands: int = 32):
        super().__init__()
        self.cnn = SpectraCNN(bands)
        self.fc = nn.Linear(bands, 1)

    def forward(self, spectra: torch.Tensor) -> torch.Tensor:
        return self.fc(self.cnn(spectra)).squeeze(-1)
