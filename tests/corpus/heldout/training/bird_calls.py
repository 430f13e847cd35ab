# target: main
# truth: model.train() is called only once before the epochs, and validate() switches to eval mode, so from the second epoch on dropout is
#   off and batch norm uses (and never updates) its running statistics during training: no error.
"""Bird-call classification on spectrograms, with early stopping."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset, random_split


class CallNet(nn.Module):
    def __init__(self, n_species=5):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, padding=1)
        self.bn1 = nn.BatchNorm2d(8)
        self.conv2 = nn.Conv2d(8, 16, 3, padding=1)
        self.bn2 = nn.BatchNorm2d(16)
        self.dropout = nn.Dropout(0.4)
        self.fc = nn.Linear(16, n_species)

    def forward(self, spec):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(spec))), 2)
        x = F.max_pool2d(F.relu(self.bn2(self.conv2(x))), 2)
        x = x.mean(dim=(2, 3))
        return self.fc(self.dropout(x))


def fake_recordings(n=300, n_species=5, mels=32, frames=32):
    labels = torch.randint(0, n_species, (n,))
    spec = 0.5 * torch.randn(n, 1, mels, frames)
    for i, species in enumerate(labels.tolist()):
        spec[i, 0, 5 * species : 5 * species + 4] += 1.5
    return TensorDataset(spec, labels)


def train_one_epoch(model, loader, optimizer):
    for spec, label in loader:
        loss = F.cross_entropy(model(spec), label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def validate(model, loader):
    model.eval()
    loss_sum, n = 0.0, 0
    with torch.no_grad():
        for spec, label in loader:
            loss_sum += F.cross_entropy(model(spec), label, reduction="sum").item()
            n += len(label)
    return loss_sum / n


def main(epochs=6, patience=3):
    torch.manual_seed(0)
    train_set, val_set = random_split(fake_recordings(), [240, 60])
    train_loader = DataLoader(train_set, batch_size=24, shuffle=True)
    val_loader = DataLoader(val_set, batch_size=60)
    model = CallNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    best, best_state, bad_epochs = float("inf"), None, 0
    model.train()
    for epoch in range(epochs):
        train_one_epoch(model, train_loader, optimizer)  # error: DG710
        val_loss = validate(model, val_loader)
        print(f"epoch {epoch}: val loss {val_loss:.3f}")
        if val_loss < best:
            best, best_state, bad_epochs = val_loss, copy.deepcopy(model.state_dict()), 0
        else:
            bad_epochs += 1
            if bad_epochs >= patience:
                break
    model.load_state_dict(best_state)
    return model


if __name__ == "__main__":
    main()
