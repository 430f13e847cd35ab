# source: https://github.com/pytorch/audio/issues/729
from typing import Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def griffinlim(
    specgram: Tensor,
    window: Tensor,
    n_fft: int,
    hop_length: int,
    win_length: int,
    n_iter: int,
    momentum: float,
    length: Optional[int],
    rand_init: bool,
) -> Tensor:
    momentum = momentum / (1 + momentum)
    shape = specgram.size()
    specgram = specgram.reshape([-1] + list(shape[-2:]))

    if rand_init:
        phase = 2 * torch.pi * torch.rand(specgram.size(), dtype=specgram.dtype, device=specgram.device)
        angles = torch.polar(torch.ones_like(specgram), phase)
    else:
        angles = torch.full(specgram.size(), 1, dtype=torch.complex64, device=specgram.device)

    tprev = torch.zeros_like(angles)
    for _ in range(n_iter):
        inverse = torch.istft(specgram * angles, n_fft=n_fft, hop_length=hop_length, win_length=win_length,
                              window=window, length=length)
        rebuilt = torch.stft(inverse, n_fft=n_fft, hop_length=hop_length, win_length=win_length, window=window,
                             center=True, pad_mode="reflect", onesided=True, return_complex=True)
        angles = rebuilt
        if momentum:
            angles = angles - tprev * momentum
        angles = angles.div(angles.abs().add(1e-16))
        tprev = rebuilt

    waveform = torch.istft(specgram * angles, n_fft=n_fft, hop_length=hop_length, win_length=win_length,
                           window=window, length=length)
    return waveform.reshape(shape[:-2] + waveform.shape[-1:])


class GriffinLim(nn.Module):
    def __init__(self, n_fft: int = 256, n_iter: int = 4, hop_length: Optional[int] = None,
                 momentum: float = 0.99, length: Optional[int] = None, rand_init: bool = True) -> None:
        super().__init__()
        if not 0 <= momentum < 1:
            raise ValueError("momentum must be in range [0, 1)")
        self.n_fft, self.n_iter, self.momentum = n_fft, n_iter, momentum
        self.hop_length = hop_length if hop_length is not None else n_fft // 4
        self.length, self.rand_init = length, rand_init
        self.register_buffer("window", torch.hann_window(n_fft))

    def forward(self, specgram: Tensor) -> Tensor:
        return griffinlim(specgram, self.window, self.n_fft, self.hop_length, self.n_fft,
                          self.n_iter, self.momentum, self.length, self.rand_init)


class Enhancer(nn.Module):
    def __init__(self, n_fft: int, length: int) -> None:
        super().__init__()
        self.n_fft = n_fft
        self.mask = nn.Sequential(nn.Linear(n_fft // 2 + 1, 64), nn.ReLU(), nn.Linear(64, n_fft // 2 + 1))
        self.resyn = GriffinLim(n_fft=n_fft, length=length)

    def forward(self, noisy: Tensor) -> Tensor:
        spec = torch.stft(noisy, self.n_fft, self.n_fft // 4, window=self.resyn.window, return_complex=True).abs()
        gain = torch.sigmoid(self.mask(spec.transpose(-1, -2))).transpose(-1, -2)
        return self.resyn(spec * gain)


def main() -> None:
    torch.manual_seed(0)
    length = 2048
    clean = torch.sin(2 * torch.pi * 440 * torch.arange(length) / 8000).repeat(2, 1)
    noisy = clean + 0.1 * torch.randn_like(clean)
    model = Enhancer(256, length)
    with torch.no_grad():
        print("before", F.mse_loss(model(noisy), clean).item())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(5):
        loss = F.mse_loss(model(noisy), clean)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("after", loss.item())


if __name__ == "__main__":
    main()
