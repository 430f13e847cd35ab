import torch
import torch.nn as nn


class ConvLSTMCell(nn.Module):
    """One ConvLSTM step: (frame, (h, c)) -> (h, c), all (B, C, H, W)."""

    def __init__(self, channels: int, kernel: int = 3):
        super().__init__()
        self.gates = nn.Conv2d(2 * channels, 4 * channels, kernel, padding=kernel // 2)

    def forward(self, frame: torch.Tensor, h: torch.Tensor, c: torch.Tensor):
        z = self.gates(torch.cat([frame, h], dim=1))
        i, f, o, g = z.chunk(4, dim=1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        return h, c


class FramePredictor(nn.Module):
    """Predicts the next grey frame of a clip (B, T, 1, H, W)."""

    def __init__(self, channels: int = 8):
        super().__init__()
        self.stem = nn.Conv2d(1, channels, 3, padding=1)
        self.cell = ConvLSTMCell(channels)
        self.head = nn.Conv2d(channels, 1, 1)

    def forward(self, clip: torch.Tensor) -> torch.Tensor:
        b, t, _, hgt, wid = clip.shape
        h = clip.new_zeros(b, self.stem.out_channels, hgt, wid)
        c = torch.zeros_like(h)
        for k in range(t):
            h, c = self.cell(self.stem(clip[:, k]), h, c)
        return self.head(h)
