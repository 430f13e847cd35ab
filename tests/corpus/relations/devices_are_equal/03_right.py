"""Predict the next frame of moving dots with a ConvLSTM."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class ConvLSTM(nn.Module):
    def __init__(self, channels=1, hidden=12, kernel=3):
        super().__init__()
        self.hidden = hidden
        self.gates = nn.Conv2d(channels + hidden, 4 * hidden, kernel, padding=kernel // 2)
        self.out = nn.Conv2d(hidden, channels, 1)

    def forward(self, frames):
        b, t, _, height, width = frames.shape
        h = frames.new_zeros(b, self.hidden, height, width)
        c = frames.new_zeros(b, self.hidden, height, width)
        outputs = []
        for step in range(t):
            i, f, o, g = self.gates(torch.cat([frames[:, step], h], dim=1)).chunk(4, dim=1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            outputs.append(self.out(h))
        return torch.stack(outputs, dim=1)


def moving_dots(n, steps=6, size=10):
    video = torch.zeros(n, steps, 1, size, size)
    start = torch.randint(0, size, (n, 2))
    speed = torch.randint(-1, 2, (n, 2))
    for t in range(steps):
        pos = (start + t * speed) % size
        video[torch.arange(n), t, 0, pos[:, 0], pos[:, 1]] = 1.0
    return video


if __name__ == "__main__":
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = ConvLSTM().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for step in range(10):
        video = moving_dots(16).to(device)
        logits = model(video[:, :-1])
        loss = F.binary_cross_entropy_with_logits(logits, video[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.4f}")
