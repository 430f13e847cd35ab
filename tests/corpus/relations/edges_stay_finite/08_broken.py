"""Train a spectral mask with a power-compressed loss."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def compress(magnitude, power=0.3):
    return torch.where(magnitude > 0, magnitude ** power, torch.zeros_like(magnitude))


def spectrogram(wave, fft=128, hop=64):
    frames = wave.unfold(-1, fft, hop) * torch.hann_window(fft, device=wave.device)
    return torch.fft.rfft(frames).abs()


class MaskNet(nn.Module):
    def __init__(self, bins=65, hidden=48):
        super().__init__()
        self.rnn = nn.GRU(bins, hidden, batch_first=True)
        self.mask = nn.Linear(hidden, bins)

    def forward(self, magnitude):
        h, _ = self.rnn(torch.log1p(magnitude))
        return F.relu(self.mask(h) + 1.0) * magnitude


def spectral_loss(estimate, clean):
    return F.l1_loss(compress(estimate), compress(clean))


def mixtures(n, length=1024):
    t = torch.arange(length) / 2000
    freq = 100 + 400 * torch.rand(n, 1)
    clean = torch.sin(2 * math.pi * freq * t) * (0.3 + torch.rand(n, 1))
    return clean, clean + 0.3 * torch.randn(n, length)


def main():
    torch.manual_seed(0)
    model = MaskNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(15):
        clean, noisy = mixtures(8)
        loss = spectral_loss(model(spectrogram(noisy)), spectrogram(clean))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
