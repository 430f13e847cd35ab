# source: https://github.com/yxlu-0102/MP-SENet/issues/33
# target: Dataset.__getitem__
# truth: a fully silent noisy clip has zero energy, so norm_factor is sqrt(n/0) = inf and inf * 0 fills the pair
#   with NaN; the first batch that holds it makes the loss and then the model NaN
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader


class AttrDict(dict):
    def __init__(self, *args, **kwargs):
        super(AttrDict, self).__init__(*args, **kwargs)
        self.__dict__ = self


h = AttrDict(n_fft=128, hop_size=32, win_size=128, compress_factor=0.3, segment_size=2048, batch_size=4,
             learning_rate=5e-4, seed=1234)


def mag_pha_stft(y, n_fft, hop_size, win_size, compress_factor=1.0):
    hann_window = torch.hann_window(win_size, device=y.device)
    stft_spec = torch.stft(y, n_fft, hop_length=hop_size, win_length=win_size, window=hann_window,
                           center=True, pad_mode="reflect", return_complex=True)
    stft_spec = torch.view_as_real(stft_spec)
    mag = torch.sqrt(stft_spec.pow(2).sum(-1) + 1e-9)
    pha = torch.atan2(stft_spec[..., 1] + 1e-10, stft_spec[..., 0] + 1e-5)
    return torch.pow(mag, compress_factor), pha


class Dataset(torch.utils.data.Dataset):
    def __init__(self, clean, noisy, segment_size, split=True, shuffle=True):
        self.pairs = list(zip(clean, noisy))
        random.seed(h.seed)
        if shuffle:
            random.shuffle(self.pairs)
        self.segment_size = segment_size
        self.split = split

    def __getitem__(self, index):
        clean_audio, noisy_audio = self.pairs[index]
        norm_factor = torch.sqrt(len(noisy_audio) / torch.sum(noisy_audio ** 2.0))  # culprit
        clean_audio = clean_audio * norm_factor
        noisy_audio = noisy_audio * norm_factor
        if self.split:
            if clean_audio.size(0) >= self.segment_size:
                max_audio_start = clean_audio.size(0) - self.segment_size
                start = random.randint(0, max_audio_start)
                clean_audio = clean_audio[start:start + self.segment_size]
                noisy_audio = noisy_audio[start:start + self.segment_size]
            else:
                pad = self.segment_size - clean_audio.size(0)
                clean_audio = F.pad(clean_audio, (0, pad))
                noisy_audio = F.pad(noisy_audio, (0, pad))
        return clean_audio, noisy_audio

    def __len__(self):
        return len(self.pairs)


class MaskNet(nn.Module):
    def __init__(self, bins):
        super(MaskNet, self).__init__()
        self.rnn = nn.GRU(bins, 48, batch_first=True)
        self.fc = nn.Linear(48, bins)

    def forward(self, mag):
        out, _ = self.rnn(mag.transpose(1, 2))
        return mag * torch.sigmoid(self.fc(out)).transpose(1, 2)


def fake_corpus(n):
    clean, noisy = [], []
    for i in range(n):
        t = torch.arange(1500 + 300 * (i % 5)) / 16000.0
        x = 0.3 * torch.sin(2 * torch.pi * (200 + 20 * i) * t)
        gate = 0.0 if i == 7 else 1.0
        clean.append(gate * x)
        noisy.append(gate * (x + 0.05 * torch.randn_like(x)))
    return clean, noisy


if __name__ == "__main__":
    torch.manual_seed(h.seed)
    loader = DataLoader(Dataset(*fake_corpus(16), h.segment_size), batch_size=h.batch_size, shuffle=True)
    generator = MaskNet(h.n_fft // 2 + 1)
    optim = torch.optim.AdamW(generator.parameters(), h.learning_rate, betas=(0.8, 0.99))
    for epoch in range(1):
        for step, (clean, noisy) in enumerate(loader):
            clean_mag, _ = mag_pha_stft(clean, h.n_fft, h.hop_size, h.win_size, h.compress_factor)
            noisy_mag, _ = mag_pha_stft(noisy, h.n_fft, h.hop_size, h.win_size, h.compress_factor)
            loss = F.mse_loss(clean_mag, generator(noisy_mag))
            optim.zero_grad()
            loss.backward()
            optim.step()
            print("epoch %d step %d loss %.4f" % (epoch, step, loss.item()))
