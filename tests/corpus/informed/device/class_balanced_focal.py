# target: script
# truth: The class weights are a plain attribute, so `loss.to(device)` leaves them on the CPU; the product with the one-
#   hot labels meets two devices. A buffer moves with the module.
"""Focal loss with weights by class frequency."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class BalancedFocalLoss(nn.Module):
    def __init__(self, counts, gamma=2.0):
        super().__init__()
        counts = torch.as_tensor(counts, dtype=torch.float32)
        self.gamma = gamma
        self.weights = counts.sum() / (len(counts) * counts)  # error: DG204|DG205

    def forward(self, logits, labels):
        log_probabilities = F.log_softmax(logits, dim=-1)
        picked = log_probabilities.gather(1, labels[:, None]).squeeze(1)
        focus = (1 - picked.exp()).pow(self.gamma)
        weighted = (self.weights * F.one_hot(labels, len(self.weights))).sum(dim=1)
        return -(weighted * focus * picked).mean()


class Tagger(nn.Module):
    def __init__(self, features, classes):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(features, 32), nn.ReLU(), nn.Linear(32, classes))

    def forward(self, x):
        return self.net(x)


def run(epochs=2):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = Tagger(12, 4).to(device)
    criterion = BalancedFocalLoss([700, 200, 80, 20]).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    x, y = torch.randn(64, 12), torch.randint(0, 4, (64,))
    for _ in range(epochs):
        for rows, labels in zip(x.split(16), y.split(16)):
            optimizer.zero_grad()
            criterion(model(rows.to(device)), labels.to(device)).backward()
            optimizer.step()


if __name__ == "__main__":
    run()
