# source: https://github.com/acids-ircam/ddsp_pytorch/issues/37
"""Harmonic plus noise synthesiser controlled by pitch and loudness."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def mlp(in_size, hidden_size, n_layers):
    channels = [in_size] + n_layers * [hidden_size]
    net = []
    for i in range(n_layers):
        net.append(nn.Linear(channels[i], channels[i + 1]))
        net.append(nn.LayerNorm(channels[i + 1]))
        net.append(nn.LeakyReLU())
    return nn.Sequential(*net)


def gru(n_input, hidden_size):
    return nn.GRU(n_input * hidden_size, hidden_size, batch_first=True)


def scale_function(x):
    return 2 * torch.sigmoid(x) ** math.log(10) + 1e-7


def upsample(signal, factor):
    signal = signal.permute(0, 2, 1)
    return F.interpolate(signal, size=signal.shape[-1] * factor).permute(0, 2, 1)


def remove_above_nyquist(amplitudes, pitch, sampling_rate):
    n_harm = amplitudes.shape[-1]
    pitches = pitch * torch.arange(1, n_harm + 1, device=pitch.device)
    audible = (pitches < sampling_rate / 2).to(amplitudes.dtype) + 1e-4
    return amplitudes * audible


def harmonic_synth(pitch, amplitudes, sampling_rate):
    n_harmonic = amplitudes.shape[-1]
    omega = torch.cumsum(2 * math.pi * pitch / sampling_rate, 1)
    omegas = omega * torch.arange(1, n_harmonic + 1, device=omega.device)
    return (torch.sin(omegas) * amplitudes).sum(-1, keepdim=True)


def filtered_noise(magnitudes, block_size):
    """White noise shaped per frame by the given band magnitudes."""
    b, t, _ = magnitudes.shape
    noise = torch.rand(b, t, block_size, device=magnitudes.device) * 2 - 1
    spectrum = torch.fft.rfft(noise)
    shape = F.interpolate(magnitudes, size=spectrum.shape[-1], mode="linear", align_corners=True)
    return torch.fft.irfft(spectrum * shape, n=block_size).reshape(b, -1, 1)


class HarmonicSynth(nn.Module):
    def __init__(self, hidden_size=64, n_harmonic=20, n_bands=17, sampling_rate=16000, block_size=80):
        super().__init__()
        self.sampling_rate = sampling_rate
        self.block_size = block_size
        self.in_mlps = nn.ModuleList([mlp(1, hidden_size, 3) for _ in range(2)])
        self.gru = gru(2, hidden_size)
        self.out_mlp = mlp(hidden_size + 2, hidden_size, 3)
        self.proj_matrices = nn.ModuleList([nn.Linear(hidden_size, n_harmonic + 1), nn.Linear(hidden_size, n_bands)])

    def controls(self, pitch, loudness):
        hidden = torch.cat([self.in_mlps[0](pitch.clamp(min=1.0).log()), self.in_mlps[1](loudness)], -1)
        hidden = torch.cat([self.gru(hidden)[0], pitch.clamp(min=1.0).log(), loudness], -1)
        return self.out_mlp(hidden)

    def forward(self, pitch, loudness):
        """pitch in Hz and loudness (batch, frames, 1) -> audio (batch, frames * block_size, 1)."""
        hidden = self.controls(pitch, loudness)

        param = scale_function(self.proj_matrices[0](hidden))
        total_amp, amplitudes = param[..., :1], param[..., 1:]
        amplitudes = remove_above_nyquist(amplitudes, pitch, self.sampling_rate)
        amplitudes = amplitudes / amplitudes.sum(-1, keepdim=True)
        amplitudes = upsample(amplitudes * total_amp, self.block_size)
        harmonic = harmonic_synth(upsample(pitch, self.block_size), amplitudes, self.sampling_rate)

        magnitudes = scale_function(self.proj_matrices[1](hidden) - 5)
        return harmonic + filtered_noise(magnitudes, self.block_size)


def multiscale_loss(pred, target, scales=(512, 256, 128), overlap=0.75):
    loss = pred.new_zeros(())
    for n_fft in scales:
        window = torch.hann_window(n_fft, device=pred.device)
        hop = int(n_fft * (1 - overlap))
        p = torch.stft(pred.squeeze(-1), n_fft, hop, window=window, return_complex=True).abs()
        t = torch.stft(target.squeeze(-1), n_fft, hop, window=window, return_complex=True).abs()
        loss = loss + (p - t).abs().mean() + (torch.log(p + 1e-5) - torch.log(t + 1e-5)).abs().mean()
    return loss
