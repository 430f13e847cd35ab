# target: ActivityRecognizer.forward
"""Human activity recognition from wearable accelerometer windows."""
import torch
import torch.nn as nn
import torch.nn.functional as F

ACTIVITIES = ("walking", "stairs_up", "stairs_down", "sitting", "standing", "lying")


class ActivityRecognizer(nn.Module):
    """Classifies windows of shape (batch, time, channels).

    The signal is smoothed by a strided convolution, an LSTM reads the resulting
    steps, and the output at the last step is classified.
    """

    def __init__(self, channels: int = 6, hidden: int = 40, layers: int = 1, n_classes: int = len(ACTIVITIES)):
        super().__init__()
        self.smooth = nn.Conv1d(channels, hidden, kernel_size=8, stride=4)
        self.lstm = nn.LSTM(hidden, hidden, num_layers=layers, batch_first=True)
        self.dropout = nn.Dropout(0.2)
        self.fc = nn.Linear(hidden, n_classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.dim() != 3:
            raise ValueError(f"expected (batch, time, channels), got {tuple(x.shape)}")
        h = F.relu(self.smooth(x.transpose(1, 2))).transpose(1, 2)
        out, _ = self.lstm(h)
        return self.fc(self.dropout(out[:, -1]))


def sliding_windows(recording: torch.Tensor, length: int = 128, overlap: float = 0.5) -> torch.Tensor:
    """Cut a (samples, channels) recording into (n, length, channels) windows."""
    step = max(1, int(length * (1 - overlap)))
    return recording.unfold(0, length, step).transpose(1, 2)


@torch.no_grad()
def label_recording(model: ActivityRecognizer, recording: torch.Tensor) -> list[str]:
    """Activity names for the windows of one recording."""
    model.eval()
    windows = sliding_windows(recording)
    windows = (windows - windows.mean(dim=1, keepdim=True)) / (windows.std(dim=1, keepdim=True) + 1e-6)
    return [ACTIVITIES[i] for i in model(windows).argmax(dim=1).tolist()]


if __name__ == "__main__":
    torch.manual_seed(0)
    print(label_recording(ActivityRecognizer(), torch.randn(1000, 6)))
