import torch
import torch.nn as nn


class AttentionPool(nn.Module):
    """Weighted sum over frames with a learned score per frame."""

    def __init__(self, dim):
        super().__init__()
        self.score = nn.Sequential(nn.Linear(dim, dim // 2), nn.Tanh(), nn.Linear(dim // 2, 1))

    def forward(self, h):
        s = self.score(h).squeeze(-1)
        a = torch.softmax(s, dim=1)
        return (a.unsqueeze(-1) * h).sum(dim=1)


class SpeakerNet(nn.Module):
    def __init__(self, n_mels=24, dim=32, speakers=10):
        super().__init__()
        self.conv = nn.Conv1d(n_mels, dim, 5, padding=2)
        self.pool = AttentionPool(dim)
        self.out = nn.Linear(dim, speakers)

    def forward(self, mel):
        h = torch.relu(self.conv(mel)).transpose(1, 2)
        return self.out(self.pool(h))


def main():
    torch.manual_seed(0)
    model = SpeakerNet()
    mel = torch.randn(12, 24, 40)
    speaker = torch.randint(0, 10, (12,))
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(5):
        loss = nn.functional.cross_entropy(model(mel), speaker)
        opt.zero_grad()
        loss.backward()
        opt.step()
    model.eval()
    with torch.no_grad():
        acc = (model(mel).argmax(1) == speaker).float().mean()
    print("train acc", acc.item())


if __name__ == "__main__":
    main()
