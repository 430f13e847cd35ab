"""Autocorrelation based pitch features."""
import torch
import torch.nn as nn


def frame_signal(wave: torch.Tensor, size: int, hop: int) -> torch.Tensor:
    """(..., samples) -> (..., frames, size)"""
    return wave.unfold(-1, size, hop)


class PitchFeatures(nn.Module):
    """Mono audio (clips, 1, samples) to pooled autocorrelations (clips, lags)."""

    def __init__(self, size: int = 256, hop: int = 128, lags: int = 64):
        super().__init__()
        self.size = size
        self.hop = hop
        self.lags = lags
        self.register_buffer("window", torch.hann_window(size))
        self.scale = nn.Parameter(torch.ones(lags))

    def forward(self, audio: torch.Tensor) -> torch.Tensor:
        wave = audio.squeeze(1)
        frames = frame_signal(wave, self.size, self.hop) * self.window
        power = torch.fft.rfft(frames, n=2 * self.size).abs().pow(2)
        ac = torch.fft.irfft(power)[..., : self.lags]
        ac = ac / ac[..., :1].clamp(min=1e-6)
        return ac.mean(dim=-2) * self.scale


class VoicingNet(nn.Module):
    """Probability that a clip (clips, 1, samples) is voiced, (clips, 1)."""

    def __init__(self):
        super().__init__()
        self.features = PitchFeatures()
        self.fc = nn.Linear(64, 1)

    def forward(self, audio: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(self.fc(self.features(audio)))
