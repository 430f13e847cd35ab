import torch
import torch.nn as nn
import torch.nn.functional as F


class MLP(nn.Module):
    def __init__(self, d_in=12, hidden=32, classes=3):
        super().__init__()
        self.fc1 = nn.Linear(d_in, hidden)
        self.bn = nn.BatchNorm1d(hidden)
        self.drop = nn.Dropout(0.3)
        self.fc2 = nn.Linear(hidden, classes)

    def forward(self, x):
        return self.fc2(self.drop(F.relu(self.bn(self.fc1(x)))))


@torch.no_grad()
def evaluate(model, batches):
    """Mean loss and accuracy over a list of (x, y)."""
    was_training = model.training
    model.eval()
    loss, hit, n = 0.0, 0, 0
    for x, y in batches:
        out = model(x)
        loss += F.cross_entropy(out, y, reduction="sum").item()
        hit += (out.argmax(1) == y).sum().item()
        n += len(y)
    model.train(was_training)
    return loss / n, hit / n


def main():
    torch.manual_seed(0)
    x = torch.randn(160, 12)
    y = x[:, :3].argmax(1)
    train = list(zip(x[:128].split(16), y[:128].split(16)))
    valid = list(zip(x[128:].split(16), y[128:].split(16)))
    model = MLP()
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    model.train()
    step = 0
    for epoch in range(3):
        for xb, yb in train:
            loss = F.cross_entropy(model(xb), yb)
            opt.zero_grad()
            loss.backward()
            opt.step()
            step += 1
            if step % 8 == 0:
                print(step, evaluate(model, valid))


if __name__ == "__main__":
    main()
