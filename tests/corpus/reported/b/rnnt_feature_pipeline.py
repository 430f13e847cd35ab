# source: https://github.com/pytorch/audio/pull/2175
# target: GlobalStatsNormalization.forward
# truth: the statistics are plain attributes, not buffers; after pipeline.to("cuda") they stay on the CPU and
#   the first batch of features on the GPU raises "Expected all tensors to be on the same device"
import json
import math
import tempfile
from pathlib import Path
from typing import List, Tuple

import torch
from torch import Tensor, nn

DECIBEL = 2 * 20 * math.log10(torch.iinfo(torch.int16).max)
GAIN = pow(10, 0.05 * DECIBEL)


def piecewise_linear_log(x: Tensor) -> Tensor:
    return torch.where(x > math.e, x.clamp(min=1e-12).log(), x / math.e)


def read_stats(path: Path) -> Tuple[Tensor, Tensor]:
    with open(path) as f:
        blob = json.load(f)
    return torch.tensor(blob["mean"]), torch.tensor(blob["invstddev"])


class FunctionalModule(nn.Module):
    def __init__(self, functional):
        super().__init__()
        self.functional = functional

    def forward(self, x: Tensor) -> Tensor:
        return self.functional(x)


class Spectrogram(nn.Module):
    def __init__(self, n_fft: int = 400, hop: int = 160, bands: int = 20):
        super().__init__()
        self.n_fft, self.hop = n_fft, hop
        self.register_buffer("window", torch.hann_window(n_fft))
        fb = torch.rand(n_fft // 2 + 1, bands, generator=torch.Generator().manual_seed(1))
        self.register_buffer("fb", fb / fb.sum(0))

    def forward(self, wav: Tensor) -> Tensor:
        spec = torch.stft(wav, self.n_fft, self.hop, window=self.window, return_complex=True)
        return spec.abs().pow(2).transpose(-1, -2) @ self.fb


class GlobalStatsNormalization(nn.Module):
    def __init__(self, stats_path: Path):
        super().__init__()
        self.mean, self.invstddev = read_stats(stats_path)  # culprit

    def forward(self, x: Tensor) -> Tensor:
        return (x - self.mean) * self.invstddev


class FeatureExtractor(nn.Module):
    def __init__(self, stats_path: Path):
        super().__init__()
        self.pipeline = nn.Sequential(
            Spectrogram(),
            FunctionalModule(lambda x: piecewise_linear_log(x * GAIN)),
            GlobalStatsNormalization(stats_path),
        )

    def forward(self, waveforms: List[Tensor]) -> Tuple[Tensor, Tensor]:
        feats = [self.pipeline(w) for w in waveforms]
        lengths = torch.tensor([f.size(0) for f in feats], dtype=torch.int32, device=feats[0].device)
        return nn.utils.rnn.pad_sequence(feats, batch_first=True), lengths


def main() -> None:
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    with tempfile.TemporaryDirectory() as tmp:
        stats = Path(tmp) / "global_stats.json"
        stats.write_text(json.dumps({"mean": [14.0] * 20, "invstddev": [0.25] * 20}))
        extractor = FeatureExtractor(stats).to(device).eval()
    encoder = nn.LSTM(20, 32, batch_first=True).to(device)
    waves = [0.1 * torch.randn(n, device=device) for n in (8000, 6400, 9600)]
    with torch.inference_mode():
        feats, lengths = extractor(waves)
        out, _ = encoder(feats)
    print(out.shape, lengths.tolist())


if __name__ == "__main__":
    main()
