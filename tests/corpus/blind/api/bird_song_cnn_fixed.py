# target: main
"""Bird song classification on log-mel spectrograms (64 mels x 100 frames)."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

N_MELS, N_FRAMES, N_SPECIES = 64, 100, 12


class SongCNN(nn.Module):
    def __init__(self, n_species=N_SPECIES):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, kernel_size=3)
        self.bn1 = nn.BatchNorm2d(16)
        self.conv2 = nn.Conv2d(16, 32, kernel_size=3)
        self.bn2 = nn.BatchNorm2d(32)
        self.pool = nn.MaxPool2d(2)
        self.dropout = nn.Dropout(0.3)
        self.fc1 = nn.Linear(32 * 14 * 23, 64)
        self.fc2 = nn.Linear(64, n_species)

    def forward(self, x):
        x = self.pool(F.relu(self.bn1(self.conv1(x))))
        x = self.pool(F.relu(self.bn2(self.conv2(x))))
        x = self.dropout(torch.flatten(x, 1))
        return self.fc2(F.relu(self.fc1(x)))


def spec_augment(mel, max_width=12):
    """Mask one random band of frames per example."""
    mel = mel.clone()
    for example in mel:
        width = int(torch.randint(0, max_width, (1,)))
        start = int(torch.randint(0, N_FRAMES - width, (1,)))
        example[:, :, start : start + width] = 0.0
    return mel


def recordings(n=64):
    species = torch.randint(0, N_SPECIES, (n,))
    mel = 0.5 * torch.randn(n, 1, N_MELS, N_FRAMES)
    for i, s in enumerate(species.tolist()):
        mel[i, 0, 4 * s : 4 * s + 4] += 1.0
    return TensorDataset(mel, species)


def main(epochs=1):
    torch.manual_seed(0)
    loader = DataLoader(recordings(), batch_size=16, shuffle=True)
    model = SongCNN()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for epoch in range(epochs):
        for mel, species in loader:
            loss = F.cross_entropy(model(spec_augment(mel)), species)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
