# target: script
"""Activity recognition from wearable sensors."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Windows(Dataset):
    """Cuts a recording into overlapping windows; the last column is the activity."""

    def __init__(self, recording, length=16, stride=8):
        self.recording = torch.as_tensor(recording, dtype=torch.float32)
        self.length = length
        self.starts = range(0, len(self.recording) - length + 1, stride)

    def __len__(self):
        return len(self.starts)

    def __getitem__(self, index):
        start = self.starts[index]
        window = self.recording[start : start + self.length]
        return window[:, :-1].t(), window[-1, -1].long()


class ActivityNet(nn.Module):
    def __init__(self, sensors, activities):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(sensors, 16, 5), nn.ReLU(), nn.Conv1d(16, 16, 5), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten()
        )
        self.head = nn.Linear(16, activities)

    def forward(self, x):
        return self.head(self.net(x))


def main():
    torch.manual_seed(0)
    recording = torch.cat([torch.randn(160, 6), torch.randint(0, 5, (160, 1)).float()], dim=1)
    loader = DataLoader(Windows(recording.tolist()), batch_size=8, shuffle=True)
    model, criterion = ActivityNet(6, 5), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for windows, activities in loader:
        loss = criterion(model(windows), activities)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
