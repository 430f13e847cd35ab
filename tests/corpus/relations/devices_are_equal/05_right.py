"""Keyword spotting on synthetic chirps with a mel front end."""
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def mel_matrix(bins, bands, rate):
    mel = lambda f: 2595 * np.log10(1 + f / 700)
    edges = 700 * (10 ** (np.linspace(0, mel(rate / 2), bands + 2) / 2595) - 1)
    freq = np.linspace(0, rate / 2, bins)
    up = (freq[None] - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    down = (edges[2:, None] - freq[None]) / (edges[2:] - edges[1:-1])[:, None]
    return np.maximum(0, np.minimum(up, down)).astype(np.float32)


class MelFrontEnd(nn.Module):
    def __init__(self, rate=4000, fft=256, hop=128, bands=20):
        super().__init__()
        self.fft, self.hop = fft, hop
        self.matrix = mel_matrix(fft // 2 + 1, bands, rate)
        self.register_buffer("window", torch.hann_window(fft))

    @torch.no_grad()
    def forward(self, wave):
        frames = wave.unfold(-1, self.fft, self.hop) * self.window
        power = torch.fft.rfft(frames).abs().pow(2)
        mel = np.einsum("mf,btf->btm", self.matrix, power.cpu().numpy())
        return torch.from_numpy(np.log(mel + 1e-6)).to(wave.device)


class Spotter(nn.Module):
    def __init__(self, bands=20, classes=3):
        super().__init__()
        self.front = MelFrontEnd(bands=bands)
        self.gru = nn.GRU(bands, 32, batch_first=True)
        self.fc = nn.Linear(32, classes)

    def forward(self, wave):
        _, h = self.gru(self.front(wave))
        return self.fc(h[-1])


def chirps(n, rate=4000, length=2000):
    t = torch.arange(length) / rate
    label = torch.randint(0, 3, (n,))
    slope = (label.float() - 1)[:, None] * 1200
    phase = 2 * math.pi * ((800 + 100 * torch.rand(n, 1)) * t + 0.5 * slope * t ** 2)
    return torch.sin(phase) + 0.05 * torch.randn(n, length), label


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Spotter().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(10):
        wave, label = (v.to(device) for v in chirps(16))
        loss = F.cross_entropy(model(wave), label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
