# source: https://github.com/mpariente/pytorch_stoi/pull/14
"""Differentiable short-time intelligibility loss for speech enhancement."""
import math

import torch
from torch import nn
import torch.nn.functional as F

EPS = 1e-8
NUMBAND = 6
MINFREQ = 150
N_SEG = 8


def third_octave(fs, nfft, num_bands, min_freq):
    """Matrix that sums the bins of an nfft spectrum into third-octave bands."""
    freqs = torch.linspace(0, fs / 2, nfft // 2 + 1)
    obm = torch.zeros(num_bands, nfft // 2 + 1)
    for band in range(num_bands):
        low = min_freq * 2 ** ((2 * band - 1) / 6)
        high = min_freq * 2 ** ((2 * band + 1) / 6)
        lo, hi = (freqs - low).abs().argmin(), (freqs - high).abs().argmin()
        obm[band, int(lo):max(int(hi), int(lo) + 1)] = 1
    return obm


class NegIntelligibilityLoss(nn.Module):
    def __init__(self, sample_rate=4000, nfft=128, win_len=64, beta=-15.0):
        super().__init__()
        self.nfft, self.win_len, self.hop = nfft, win_len, win_len // 2
        self.clip_value = 10 ** (-beta / 20)
        self.register_buffer("window", torch.hann_window(win_len + 2)[1:-1])
        self.register_buffer("octave", third_octave(sample_rate, nfft, NUMBAND, MINFREQ))

    def power(self, wav):
        frames = wav.unfold(-1, self.win_len, self.hop) * self.window
        spec = torch.fft.rfft(frames, n=self.nfft)
        return (spec.real ** 2 + spec.imag ** 2).transpose(1, 2)

    def bands(self, wav):
        return torch.sqrt(torch.matmul(self.octave, self.power(wav)) + EPS)

    @staticmethod
    def normalise(seg):
        seg = seg - seg.mean(dim=-1, keepdim=True)
        return seg / (seg.norm(dim=-1, keepdim=True) + EPS)

    def forward(self, est_targets, targets):
        x = self.bands(targets).unfold(-1, N_SEG, 1)
        y = self.bands(est_targets).unfold(-1, N_SEG, 1)
        norm_const = x.norm(dim=-1, keepdim=True) / (y.norm(dim=-1, keepdim=True) + EPS)
        y = torch.min(y * norm_const, x * (1 + self.clip_value))
        corr = (self.normalise(x) * self.normalise(y)).sum(dim=-1)
        return -corr.mean(dim=(1, 2))


class GateEnhancer(nn.Module):
    """Small time-domain gate; silence at the input stays silence at the output."""

    def __init__(self, kernel=15):
        super().__init__()
        self.filter = nn.Conv1d(1, 1, kernel, padding=kernel // 2, bias=False)
        self.gate = nn.Conv1d(1, 1, kernel, padding=kernel // 2)

    def forward(self, wav):
        x = wav.unsqueeze(1)
        return (self.filter(x) * torch.sigmoid(self.gate(x))).squeeze(1)


def collate(lengths, total):
    time = torch.arange(total) / 4000
    clean = torch.stack([torch.sin(2 * math.pi * (200 + 90 * i) * time) for i in range(len(lengths))])
    clean = clean * (time[None, :] < torch.tensor(lengths)[:, None] / 4000)
    noisy = clean + 0.1 * torch.randn_like(clean) * (clean != 0)
    return noisy, clean


if __name__ == "__main__":
    torch.manual_seed(0)
    model, criterion = GateEnhancer(), NegIntelligibilityLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step, lengths in enumerate([(1200, 1200), (1200, 700), (900, 1200)]):
        noisy, clean = collate(lengths, 1200)
        loss = criterion(model(noisy), clean).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        print(f"step {step} loss {loss.item():.4f}")
