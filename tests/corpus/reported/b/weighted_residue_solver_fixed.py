# source: https://github.com/sacdallago/biotrainer/issues/67
from collections import Counter
from typing import Any, Dict, List, Optional, Tuple

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

SEQUENCE_PAD_VALUE = -100


class ResidueCNN(nn.Module):
    def __init__(self, n_classes: int, n_features: int, bottleneck_dim: int = 32):
        super().__init__()
        self.conv1 = nn.Sequential(nn.Conv1d(n_features, bottleneck_dim, 7, padding=3), nn.ReLU(), nn.Dropout(0.25))
        self.classifier = nn.Conv1d(bottleneck_dim, n_classes, 7, padding=3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classifier(self.conv1(x.transpose(1, 2)))


class TargetManager:
    """Holds the per residue annotations and derives class weights from them."""

    def __init__(self, annotations: Dict[str, List[int]]):
        self.annotations = annotations
        self.classes = sorted({c for labels in annotations.values() for c in labels})

    def compute_class_weights(self) -> torch.FloatTensor:
        counts = Counter(c for labels in self.annotations.values() for c in labels)
        total = sum(counts.values())
        weights = [total / (len(self.classes) * counts[c]) for c in self.classes]
        return torch.FloatTensor(weights)


def get_loss(choice: str, weight: Optional[torch.Tensor] = None) -> nn.Module:
    losses = {"cross_entropy_loss": nn.CrossEntropyLoss}
    if choice not in losses:
        raise NotImplementedError(choice)
    return losses[choice](weight=weight, ignore_index=SEQUENCE_PAD_VALUE)


def collate(batch: List[Tuple[torch.Tensor, torch.Tensor]]) -> Tuple[torch.Tensor, torch.Tensor]:
    xs, ys = zip(*batch)
    return (pad_sequence(xs, batch_first=True),
            pad_sequence(ys, batch_first=True, padding_value=SEQUENCE_PAD_VALUE))


class Solver:
    def __init__(self, network: nn.Module, optimizer: torch.optim.Optimizer, loss_function: nn.Module,
                 device: torch.device, number_of_epochs: int = 3):
        self.network, self.optimizer, self.loss_function = network, optimizer, loss_function
        self.device, self.number_of_epochs = device, number_of_epochs

    def train(self, loader: DataLoader) -> List[float]:
        history = []
        for _ in range(self.number_of_epochs):
            self.network.train()
            losses = [self._training_iteration(x, y) for x, y in loader]
            history.append(sum(losses) / len(losses))
        return history

    def _training_iteration(self, x: torch.Tensor, y: torch.Tensor) -> float:
        x, y = x.to(self.device), y.to(self.device)
        self.optimizer.zero_grad()
        loss = self.loss_function(self.network(x), y)
        loss.backward()
        self.optimizer.step()
        return loss.item()


def training_and_evaluation_routine(config: Dict[str, Any]) -> List[float]:
    torch.manual_seed(config["seed"])
    device = torch.device(config["device"])
    samples, annotations = [], {}
    for i in range(24):
        x = torch.randn(int(torch.randint(15, 30, ())), config["n_features"])
        y = (x[:, 0] > 1.0).long() + (x[:, 1] > 1.5).long()
        samples.append((x, y))
        annotations[f"seq{i}"] = y.tolist()
    manager = TargetManager(annotations)
    class_weights = manager.compute_class_weights() if config["use_class_weights"] else None
    model = ResidueCNN(len(manager.classes), config["n_features"]).to(device)
    loss_function = get_loss(config["loss_choice"], weight=class_weights).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=config["learning_rate"])
    loader = DataLoader(samples, batch_size=8, shuffle=True, collate_fn=collate)
    return Solver(model, optimizer, loss_function, device).train(loader)


if __name__ == "__main__":
    print(training_and_evaluation_routine({
        "seed": 42, "device": "cuda" if torch.cuda.is_available() else "cpu", "n_features": 16,
        "use_class_weights": True, "loss_choice": "cross_entropy_loss", "learning_rate": 1e-2,
    }))
