# target: script
"""Small keyword spotter trained straight from waveforms."""
import math
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class FrontendConfig:
    sample_rate: int = 8000
    n_fft: int = 256
    hop: int = 128
    n_mels: int = 20


def mel_filters(cfg: FrontendConfig) -> torch.Tensor:
    """Triangular mel filters, (n_fft // 2 + 1, n_mels)."""
    top = 2595.0 * math.log10(1.0 + cfg.sample_rate / 2 / 700.0)
    mels = torch.linspace(0.0, top, cfg.n_mels + 2)
    hz = 700.0 * (10.0 ** (mels / 2595.0) - 1.0)
    freqs = torch.linspace(0.0, cfg.sample_rate / 2, cfg.n_fft // 2 + 1)
    rising = (freqs[:, None] - hz[None, :-2]) / (hz[1:-1] - hz[:-2])
    falling = (hz[None, 2:] - freqs[:, None]) / (hz[2:] - hz[1:-1])
    return torch.minimum(rising, falling).clamp(min=0.0)


class LogMel(nn.Module):
    def __init__(self, cfg: FrontendConfig):
        super().__init__()
        self.cfg = cfg
        self.register_buffer("window", torch.hann_window(cfg.n_fft), persistent=False)
        self.register_buffer("filters", mel_filters(cfg), persistent=False)

    def forward(self, wave: torch.Tensor) -> torch.Tensor:
        spec = torch.stft(wave, self.cfg.n_fft, self.cfg.hop, window=self.window, return_complex=True)
        power = spec.abs().pow(2)
        mel = torch.matmul(power.transpose(1, 2), self.filters)
        return torch.log(mel + 1e-5)


class KeywordSpotter(nn.Module):
    def __init__(self, cfg: FrontendConfig, n_words: int):
        super().__init__()
        self.frontend = LogMel(cfg)
        self.rnn = nn.GRU(cfg.n_mels, 32, batch_first=True)
        self.out = nn.Linear(32, n_words)

    def forward(self, wave: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            feats = self.frontend(wave)
        hidden, _ = self.rnn(feats)
        return self.out(hidden.mean(dim=1))


def synth_batch(n: int, n_words: int, length: int = 4000):
    labels = torch.randint(0, n_words, (n,))
    t = torch.arange(length) / 8000.0
    tone = torch.sin(2 * math.pi * (300.0 + 400.0 * labels)[:, None] * t)
    return tone + 0.1 * torch.randn(n, length), labels


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = KeywordSpotter(FrontendConfig(), n_words=4).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step in range(30):
        waves, labels = synth_batch(16, 4)
        waves, labels = waves.to(device), labels.to(device)
        loss = nn.functional.cross_entropy(model(waves), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 9:
            print(f"step {step + 1}: loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
