# target: train
"""Early stopping with the weights of the best epoch."""

import copy

import torch
from torch import nn


class Classifier(nn.Module):
    def __init__(self, features: int = 10, classes: int = 3):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(features, 24), nn.ReLU(), nn.Linear(24, classes))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x)


@torch.no_grad()
def validate(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> float:
    model.eval()
    return nn.functional.cross_entropy(model(x), y).item()


def train(model: nn.Module, train_set, valid_set, epochs: int = 8, patience: int = 2) -> float:
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    best_loss, best_state, waited = float("inf"), None, 0
    for _ in range(epochs):
        model.train()
        x, y = train_set
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        loss = validate(model, *valid_set)
        if loss < best_loss:
            best_loss, waited = loss, 0
            best_state = copy.deepcopy(model.state_dict())
        else:
            waited += 1
            if waited > patience:
                break
    if best_state is not None:
        model.load_state_dict(best_state)
    return best_loss


if __name__ == "__main__":
    torch.manual_seed(0)
    sets = [(torch.randn(30, 10), torch.randint(0, 3, (30,))) for _ in range(2)]
    model = Classifier()
    best = train(model, *sets)
    print(best, validate(model, *sets[1]))
