# target: script
# truth: The utterances have different lengths and the loader has no collate_fn that pads them, so default_collate fails when the first batch is
#   fetched: RuntimeError "stack expects each tensor to be equal size".
"""CTC speech recogniser on synthetic utterances."""
from __future__ import annotations

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

ALPHABET = "_ abcdefghijklmnopqrstuvwxyz'"  # "_" is the CTC blank
HOP = 128


def text_to_ids(text: str) -> torch.Tensor:
    return torch.tensor([ALPHABET.index(c) for c in text.lower()], dtype=torch.long)


def log_spectrogram(wave: torch.Tensor, n_fft: int = 256) -> torch.Tensor:
    """(samples,) -> (frames, n_fft // 2 + 1)"""
    spec = torch.stft(wave, n_fft, HOP, window=torch.hann_window(n_fft), return_complex=True)
    return spec.abs().clamp_min(1e-5).log().T


class SpeechDataset(Dataset):
    """Waveform and transcript pairs; every item is (features, ids, number of frames, number of ids)."""

    def __init__(self, texts: list[str], samples_per_char: int = 512):
        self.texts = texts
        self.waves = [torch.randn(samples_per_char * len(t)) for t in texts]

    def __len__(self) -> int:
        return len(self.waves)

    def __getitem__(self, index: int):
        feats, ids = log_spectrogram(self.waves[index]), text_to_ids(self.texts[index])
        return feats, ids, len(feats), len(ids)


class Recogniser(nn.Module):
    def __init__(self, n_bins: int = 129, hidden: int = 48):
        super().__init__()
        self.rnn = nn.GRU(n_bins, hidden, batch_first=True, bidirectional=True)
        self.fc = nn.Linear(2 * hidden, len(ALPHABET))

    def forward(self, feats: torch.Tensor) -> torch.Tensor:
        return self.fc(self.rnn(feats)[0]).log_softmax(-1)


def main() -> None:
    torch.manual_seed(0)
    texts = ["yes", "no", "turn left", "turn right", "stop", "go on", "switch the light on", "louder"]
    loader = DataLoader(SpeechDataset(texts), batch_size=4, shuffle=True)  # error: DG314|DG907
    model = Recogniser()
    ctc = nn.CTCLoss(blank=0)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(3):
        for feats, ids, n_frames, n_ids in loader:
            log_probs = model(feats).transpose(0, 1)
            loss = ctc(log_probs, ids, n_frames, n_ids)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: {loss.item():.2f}")


if __name__ == "__main__":
    main()
