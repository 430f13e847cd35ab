# target: script
# truth: to_numpy copies from the GPU with non_blocking=True and reads the host memory at once without synchronising;
#   the copy may not have landed (or even begun), so rows of the file hold stale or zero values, at random and without
#   an error. On CPU it is right.
"""Extract speaker embeddings for a whole corpus into one array on disk."""
import argparse
import tempfile
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


class UtteranceFeatures(Dataset):
    """Fixed-length log-mel crops; here generated, in production read from shards."""

    def __init__(self, n, n_mels=40, frames=100):
        gen = torch.Generator().manual_seed(0)
        self.mels = torch.randn(n, n_mels, frames, generator=gen)

    def __len__(self):
        return self.mels.shape[0]

    def __getitem__(self, i):
        return i, self.mels[i]


class XVector(nn.Module):
    def __init__(self, n_mels=40, channels=64, dim=32):
        super().__init__()
        self.frames = nn.Sequential(
            nn.Conv1d(n_mels, channels, 5, padding=2), nn.ReLU(), nn.BatchNorm1d(channels),
            nn.Conv1d(channels, channels, 3, dilation=2, padding=2), nn.ReLU(), nn.BatchNorm1d(channels),
        )
        self.segment = nn.Linear(2 * channels, dim)

    def forward(self, mels):
        h = self.frames(mels)
        stats = torch.cat([h.mean(dim=2), h.var(dim=2).clamp(min=1e-5).sqrt()], dim=1)
        return F.normalize(self.segment(stats), dim=1)


def to_numpy(t):
    return t.to("cpu", non_blocking=True).numpy()  # error: DG605


class EmbeddingWriter:
    def __init__(self, path, n, dim):
        self.array = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(n, dim))

    def write(self, index, embeddings):
        self.array[index.numpy()] = to_numpy(embeddings)

    def close(self):
        self.array.flush()


@torch.inference_mode()
def extract(model, loader, writer, device):
    model.eval()
    for index, mels in loader:
        writer.write(index, model(mels.to(device, non_blocking=True)))
    writer.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--n", type=int, default=64)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--out", type=Path, default=Path(tempfile.gettempdir()) / "xvectors.npy")
    args = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    data = UtteranceFeatures(args.n)
    loader = DataLoader(data, batch_size=args.batch_size, pin_memory=device.type == "cuda")
    model = XVector().to(device)
    extract(model, loader, EmbeddingWriter(args.out, len(data), model.segment.out_features), device)
    print(args.out, np.load(args.out, mmap_mode="r").shape)


if __name__ == "__main__":
    main()
