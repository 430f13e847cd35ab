"""Griffin-Lim phase reconstruction from magnitudes, without gradients, with its convergence printed."""
import math

import torch

N_FFT, HOP = 128, 32


def stft(x, window):
    return torch.stft(x, N_FFT, HOP, window=window, return_complex=True)


def istft(spec, window, length):
    return torch.istft(spec, N_FFT, HOP, window=window, length=length)


def chirp(length, sr, device):
    t = torch.arange(length, device=device) / sr
    return torch.sin(2 * math.pi * (100 * t + 400 * t**2)) * torch.hann_window(length, device=device)


@torch.no_grad()
def griffin_lim(magnitude, window, length, iterations=40, momentum=0.9, generator=None):
    angle = 2 * math.pi * torch.rand(magnitude.shape, generator=generator, device=magnitude.device)
    phase = torch.polar(torch.ones_like(magnitude), angle)
    previous = torch.zeros_like(phase)
    history = []
    for i in range(iterations):
        wave = istft(magnitude * phase, window, length)
        rebuilt = stft(wave, window)
        if i % 10 == 0:
            gap = torch.linalg.norm(rebuilt.abs() - magnitude) / torch.linalg.norm(magnitude)
            history.append(gap)
        accelerated = rebuilt - momentum / (1 + momentum) * previous
        previous = rebuilt
        phase = accelerated / accelerated.abs().clamp(min=1e-8)
    wave = istft(magnitude * phase, window, length)
    return wave, torch.stack(history).tolist()


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    gen = torch.Generator(device=device).manual_seed(0)
    length = 2048
    wave = chirp(length, sr=4000, device=device)
    window = torch.hann_window(N_FFT, device=device)
    spec = stft(wave, window)
    torch.testing.assert_close(istft(spec, window, length), wave, atol=1e-4, rtol=1e-4)

    rebuilt, history = griffin_lim(spec.abs(), window, length, generator=gen)
    print("spectral gap", [round(h, 3) for h in history])
    # the phase is known up to a sign and a shift only, so energies are compared
    ratio = rebuilt.square().sum() / wave.square().sum()
    print(f"energy ratio {ratio.item():.3f}")
    assert history[-1] < history[0]


if __name__ == "__main__":
    main()
