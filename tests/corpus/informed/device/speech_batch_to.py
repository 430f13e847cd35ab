# target: script
# truth: `features.to(device)` as a statement moves nothing: its result is thrown away, and the convolution on the GPU
#   gets a CPU input.
"""Keyword spotting on log-mel features."""

import torch
import torch.nn as nn


class KeywordNet(nn.Module):
    def __init__(self, mels=20, keywords=6):
        super().__init__()
        self.conv = nn.Conv1d(mels, 32, 5, padding=2)
        self.gru = nn.GRU(32, 24, batch_first=True)
        self.out = nn.Linear(24, keywords)

    def forward(self, features):
        x = torch.relu(self.conv(features))
        _, last = self.gru(x.transpose(1, 2))
        return self.out(last[-1])


def train_epoch(model, loader, optimizer, device):
    criterion = nn.CrossEntropyLoss()
    model.train()
    for features, labels in loader:
        features.to(device)  # error: DG202
        labels = labels.to(device)
        optimizer.zero_grad()
        loss = criterion(model(features), labels)
        loss.backward()
        optimizer.step()


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = KeywordNet().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    data = [(torch.randn(4, 20, 50), torch.randint(0, 6, (4,))) for _ in range(3)]
    train_epoch(model, data, optimizer, device)


if __name__ == "__main__":
    main()
