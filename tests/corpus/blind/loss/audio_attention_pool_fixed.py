# target: AudioTagger.forward
# source: https://github.com/PetrochukM/PyTorch-NLP/issues/2
# truth: none, the repaired twin of audio_attention_pool.py
import math

import torch
import torch.nn as nn


def log_mel_like(wave, n_fft=64, hop=32, n_bands=16):
    spec = torch.stft(wave, n_fft, hop, window=torch.hann_window(n_fft), return_complex=True).abs()
    bands = torch.nn.functional.adaptive_avg_pool1d(spec.transpose(1, 2), n_bands)
    return torch.log1p(bands)


def synth(n, sr=800, seconds=2):
    """Noise with one short event; the class is the pitch of the event."""
    t = torch.arange(sr * seconds) / sr
    y = torch.randint(0, 4, (n,))
    wave = 0.1 * torch.randn(n, t.numel())
    for i in range(n):
        start = int(torch.randint(0, t.numel() - 240, (1,)))
        tone = torch.sin(2 * math.pi * (60 + 80 * y[i]) * t[:200]) * torch.hann_window(200)
        wave[i, start:start + 200] += tone
    return wave, y


class FrameAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.score = nn.Sequential(nn.Linear(dim, dim), nn.Tanh(), nn.Linear(dim, 1, bias=False))
        self.softmax = nn.Softmax(dim=-1)

    def forward(self, frames):
        weights = self.softmax(self.score(frames).squeeze(-1))
        return torch.bmm(weights.unsqueeze(1), frames).squeeze(1), weights


class AudioTagger(nn.Module):
    def __init__(self, n_bands=16, dim=32, n_classes=4):
        super().__init__()
        self.n_bands = n_bands
        self.frontend = nn.Sequential(nn.Linear(n_bands, dim), nn.ReLU(), nn.Linear(dim, dim), nn.ReLU())
        self.pool = FrameAttention(dim)
        self.out = nn.Linear(dim, n_classes)

    def forward(self, wave):
        frames = self.frontend(log_mel_like(wave, n_bands=self.n_bands))
        pooled, _ = self.pool(frames)
        return self.out(pooled)


def train(model, iterations=150, batch=32, lr=2e-3):
    opt = torch.optim.Adam(model.parameters(), lr=lr)
    for it in range(iterations):
        wave, y = synth(batch)
        loss = nn.functional.cross_entropy(model(wave), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if it % 50 == 49:
            print("it", it + 1, "loss", round(loss.item(), 3))


@torch.no_grad()
def test(model, n=64):
    wave, y = synth(n)
    together = model(wave).argmax(1)
    one_by_one = torch.cat([model(w.unsqueeze(0)) for w in wave]).argmax(1)
    return (together == y).float().mean().item(), (one_by_one == y).float().mean().item()


if __name__ == "__main__":
    torch.manual_seed(2)
    tagger = AudioTagger()
    train(tagger)
    print("accuracy in a batch %.3f, clip by clip %.3f" % test(tagger))
