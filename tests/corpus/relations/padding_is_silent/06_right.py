"""Convolutional acoustic front end (log-mel in, frame features out)."""
import torch
from torch import nn


def length_mask(lengths, max_len):
    """(B,) -> (B, 1, max_len) float mask."""
    steps = torch.arange(max_len, device=lengths.device)
    return (steps[None, None, :] < lengths[:, None, None]).float()


class ConvFrontend(nn.Module):
    """Stack of same-padded 1d convolutions over time.

    forward(mel, lengths): mel (B, n_mels, T), lengths (B,) number of real
    frames per utterance; returns (B, channels, T), zero outside of the lengths.
    """

    def __init__(self, n_mels=40, channels=48, kernel=5, depth=3):
        super().__init__()
        dims = [n_mels] + [channels] * depth
        self.convs = nn.ModuleList(
            nn.Conv1d(a, b, kernel, padding=kernel // 2) for a, b in zip(dims[:-1], dims[1:])
        )
        self.act = nn.SiLU()

    def forward(self, mel, lengths):
        mask = length_mask(lengths, mel.size(-1))
        h = mel
        for conv in self.convs:
            h = self.act(conv(h * mask))
        return h * mask
