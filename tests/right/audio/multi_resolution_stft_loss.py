"""Fit oscillator parameters with a multi-resolution spectral loss, magnitudes kept away from zero."""
import math

import torch
import torch.nn as nn


class STFTLoss(nn.Module):
    def __init__(self, n_fft, hop):
        super().__init__()
        self.n_fft, self.hop = n_fft, hop
        self.register_buffer("window", torch.hann_window(n_fft), persistent=False)

    def magnitude(self, x):
        s = torch.stft(x, self.n_fft, self.hop, window=self.window, return_complex=True)
        # the root of a clamped power has a finite gradient everywhere
        return (s.real.square() + s.imag.square()).clamp(min=1e-7).sqrt()

    def forward(self, pred, target):
        p, t = self.magnitude(pred), self.magnitude(target)
        convergence = torch.linalg.matrix_norm(t - p) / torch.linalg.matrix_norm(t)
        return convergence.mean() + nn.functional.l1_loss(p.log(), t.log())


class MultiResolution(nn.Module):
    def __init__(self, sizes=(64, 128, 256)):
        super().__init__()
        self.losses = nn.ModuleList(STFTLoss(n, n // 4) for n in sizes)

    def forward(self, pred, target):
        return sum(loss(pred, target) for loss in self.losses) / len(self.losses)


class HarmonicBank(nn.Module):
    def __init__(self, freqs, n, sr):
        super().__init__()
        t = torch.arange(n) / sr
        phase = 2 * math.pi * torch.as_tensor(freqs)[:, None] * t
        self.register_buffer("carriers", torch.sin(phase))
        self.raw = nn.Parameter(torch.zeros(len(freqs)))

    def forward(self):
        amplitude = nn.functional.softplus(self.raw)
        return amplitude @ self.carriers


torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
bank = HarmonicBank([110.0, 220.0, 330.0, 440.0], n=1024, sr=2000).to(device)
criterion = MultiResolution().to(device)
true_amplitudes = torch.tensor([1.0, 0.1, 0.5, 0.3], device=device)
target = (true_amplitudes @ bank.carriers + 0.01 * torch.randn(1024, device=device)).unsqueeze(0)

optimizer = torch.optim.Adam(bank.parameters(), lr=5e-2)
for step in range(80):
    loss = criterion(bank().unsqueeze(0), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(f"step {step}: {loss.item():.3f}")

found = nn.functional.softplus(bank.raw.detach())
print("amplitudes", [round(a, 2) for a in found.tolist()])
