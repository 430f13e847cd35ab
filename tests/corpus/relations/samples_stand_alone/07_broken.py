import torch
import torch.nn as nn


def normalise_loudness(wave, peak=0.95, eps=1e-6):
    """Scale every clip of (B, T) to the same peak."""
    top = wave.abs().max()
    return wave * (peak / (top + eps))


class BirdCallNet(nn.Module):
    def __init__(self, species=6, n_fft=128):
        super().__init__()
        self.n_fft = n_fft
        self.register_buffer("window", torch.hann_window(n_fft))
        self.conv = nn.Sequential(
            nn.Conv1d(n_fft // 2 + 1, 32, 3, padding=1),
            nn.ReLU(),
            nn.Conv1d(32, 32, 3, padding=1),
            nn.ReLU(),
        )
        self.fc = nn.Linear(32, species)

    def forward(self, wave):
        wave = normalise_loudness(wave)
        spec = torch.stft(wave, self.n_fft, self.n_fft // 2, window=self.window, return_complex=True)
        feat = torch.log1p(spec.abs())
        return self.fc(self.conv(feat).mean(dim=-1))


def tone(freq, t=2000, rate=8000):
    return torch.sin(2 * torch.pi * freq * torch.arange(t) / rate)


if __name__ == "__main__":
    torch.manual_seed(0)
    clips = torch.stack([tone(f) * g for f, g in [(440, 1.0), (880, 0.3), (1500, 0.7), (2500, 0.1)]])
    clips = clips + 0.01 * torch.randn_like(clips)
    model = BirdCallNet().eval()
    with torch.no_grad():
        print(model(clips).softmax(-1))
