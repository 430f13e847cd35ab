# target: script
# truth: The collate function moves the batch to the GPU, but with num_workers > 0 it runs in a forked worker after the
#   parent has initialised CUDA: "RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with
#   multiprocessing, you must use the 'spawn' start method" (re-raised in the loop as "Caught RuntimeError in DataLoader
#   worker process 0"). Works on the CPU and with no workers.
"""Speaker identification from waveform crops."""
import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Utterances(Dataset):
    """Synthetic voices: every speaker has a base frequency."""

    def __init__(self, n=160, speakers=4, min_len=800, max_len=1600):
        self.n, self.speakers = n, speakers
        self.min_len, self.max_len = min_len, max_len

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        gen = torch.Generator().manual_seed(index)
        speaker = index % self.speakers
        length = int(torch.randint(self.min_len, self.max_len, (), generator=gen))
        tone = torch.sin(torch.arange(length) * 2 * math.pi * (90 + 60 * speaker) / 8000)
        return tone + 0.3 * torch.randn(length, generator=gen), speaker


class CropCollate:
    """Cuts every waveform of the batch to the shortest one."""

    def __init__(self, device):
        self.device = device

    def __call__(self, samples):
        waves, speakers = zip(*samples)
        shortest = min(len(w) for w in waves)
        batch = torch.stack([w[:shortest] for w in waves]).unsqueeze(1)
        return batch.to(self.device), torch.tensor(speakers).to(self.device)  # error: DG210


class SpeakerNet(nn.Module):
    def __init__(self, speakers, width=16):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv1d(1, width, 64, stride=16), nn.ReLU(),
            nn.Conv1d(width, width, 8, stride=4), nn.ReLU(),
        )
        self.head = nn.Linear(width, speakers)

    def forward(self, wave):
        return self.head(self.features(wave).mean(dim=-1))


def train_epoch(model, loader, optimizer, device):
    model.train()
    losses = []
    for waves, speakers in loader:
        loss = F.cross_entropy(model(waves), speakers)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses).mean()


def main(epochs=3, workers=2):
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    data = Utterances()
    model = SpeakerNet(data.speakers).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    loader = DataLoader(data, batch_size=16, shuffle=True, num_workers=workers, collate_fn=CropCollate(device))
    for epoch in range(epochs):
        loss = train_epoch(model, loader, optimizer, device)
        print(f"epoch {epoch} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
