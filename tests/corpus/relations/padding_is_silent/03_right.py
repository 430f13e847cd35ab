import torch
from torch import nn, optim

torch.manual_seed(7)


class GestureGRU(nn.Module):
    def __init__(self, n_sensors, hidden, n_classes):
        super().__init__()
        self.gru = nn.GRU(n_sensors, hidden, batch_first=True)
        self.drop = nn.Dropout(0.1)
        self.fc = nn.Linear(hidden, n_classes)

    def forward(self, x, lengths):
        out, _ = self.gru(x)
        last = out[torch.arange(x.size(0)), lengths - 1]
        return self.fc(self.drop(last))


def make_batch(n=24, t=20, c=6):
    lengths = torch.randint(5, t + 1, (n,))
    lengths[0] = t
    x = torch.zeros(n, t, c)
    y = torch.randint(0, 4, (n,))
    for i, length in enumerate(lengths.tolist()):
        phase = torch.linspace(0, 3 + y[i].item(), length)
        x[i, :length] = torch.sin(phase)[:, None] + 0.1 * torch.randn(length, c)
    return x, lengths, y


x, lengths, y = make_batch()
model = GestureGRU(6, 24, 4)
opt = optim.Adam(model.parameters(), lr=5e-3)
crit = nn.CrossEntropyLoss()
for step in range(20):
    model.train()
    loss = crit(model(x, lengths), y)
    opt.zero_grad()
    loss.backward()
    opt.step()

model.eval()
with torch.no_grad():
    acc = (model(x, lengths).argmax(1) == y).float().mean()
print(f"loss {loss.item():.3f}  acc {acc.item():.2f}")
