"""Log-mel features made with torch alone, and a small classifier of tone height."""
import math

import torch
import torch.nn as nn

SR, N_FFT, HOP, N_MELS = 4000, 128, 64, 20


def hz_to_mel(f):
    return 2595.0 * math.log10(1 + f / 700.0)


def mel_filters():
    mel = torch.linspace(hz_to_mel(0.0), hz_to_mel(SR / 2), N_MELS + 2)
    hz = 700.0 * (10 ** (mel / 2595.0) - 1)
    freqs = torch.linspace(0, SR / 2, N_FFT // 2 + 1)
    low, mid, high = hz[:-2, None], hz[1:-1, None], hz[2:, None]
    rising, falling = (freqs - low) / (mid - low), (high - freqs) / (high - mid)
    return torch.minimum(rising, falling).clamp(min=0)


class LogMel(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("window", torch.hann_window(N_FFT))
        self.register_buffer("filters", mel_filters())

    def forward(self, wave):
        spec = torch.stft(wave, N_FFT, HOP, window=self.window, return_complex=True)
        power = spec.abs().square()
        return torch.log(torch.matmul(self.filters, power).clamp(min=1e-6))


class ToneNet(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.mel = LogMel()
        self.norm = nn.BatchNorm1d(N_MELS)
        self.conv = nn.Conv1d(N_MELS, 16, 3, padding=1)
        self.fc = nn.Linear(16, classes)

    def forward(self, wave):
        with torch.no_grad():
            feats = self.mel(wave)
        h = torch.relu(self.conv(self.norm(feats)))
        return self.fc(h.mean(dim=-1))


def tones(n, pitches):
    device = pitches.device
    y = torch.randint(3, (n,), device=device)
    base = pitches[y] * (1 + 0.05 * torch.randn(n, device=device))
    t = torch.arange(1024, device=device) / SR
    wave = torch.sin(2 * math.pi * base[:, None] * t)
    return wave + 0.3 * torch.randn_like(wave), y


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    net = ToneNet(3).to(device)
    pitches = torch.tensor([300.0, 700.0, 1400.0], device=device)
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)
    for step in range(30):
        wave, y = tones(32, pitches)
        loss = nn.functional.cross_entropy(net(wave), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 10 == 0:
            print(f"step {step}: {loss.item():.3f}")
    net.eval()
    with torch.no_grad():
        wave, y = tones(100, pitches)
        print(f"accuracy {(net(wave).argmax(1) == y).float().mean().item():.2f}")


if __name__ == "__main__":
    main()
