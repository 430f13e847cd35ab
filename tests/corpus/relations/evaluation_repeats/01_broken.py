import torch
import torch.nn as nn
import torch.nn.functional as F


class TextCNN(nn.Module):
    """Kim style CNN for sentence classification."""

    def __init__(self, vocab=500, dim=24, channels=16, classes=2, drop=0.4):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.convs = nn.ModuleList([nn.Conv1d(dim, channels, k, padding=k // 2) for k in (1, 3, 5)])
        self.fc = nn.Linear(3 * channels, classes)
        self.drop = drop

    def forward(self, ids):
        x = self.embed(ids).transpose(1, 2)
        feats = [F.relu(conv(x)).amax(dim=2) for conv in self.convs]
        x = torch.cat(feats, dim=1)
        x = F.dropout(x, self.drop)
        return self.fc(x)


def main():
    torch.manual_seed(0)
    ids = torch.randint(0, 500, (40, 12))
    labels = (ids < 250).float().mean(1).gt(0.5).long()
    model = TextCNN()
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    model.train()
    for epoch in range(4):
        for i in range(0, 40, 10):
            loss = F.cross_entropy(model(ids[i:i + 10]), labels[i:i + 10])
            opt.zero_grad()
            loss.backward()
            opt.step()
    model.eval()
    with torch.no_grad():
        print("acc", (model(ids).argmax(1) == labels).float().mean().item())


if __name__ == "__main__":
    main()
