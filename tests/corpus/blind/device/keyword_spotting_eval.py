# target: evaluate
# truth: The predictions are still on the GPU when .numpy() is called, so with a CUDA model evaluation raises "can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first."
"""Evaluation helpers for the keyword-spotting model."""
import numpy as np
import torch
import torch.nn as nn


class KeywordNet(nn.Module):
    """1-D convolutional classifier over log-mel frames (B, n_mels, T)."""

    def __init__(self, n_mels: int = 40, n_keywords: int = 10):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv1d(n_mels, 32, 5, padding=2), nn.BatchNorm1d(32), nn.ReLU(),
            nn.Conv1d(32, 32, 5, stride=2, padding=2), nn.BatchNorm1d(32), nn.ReLU(),
        )
        self.classifier = nn.Linear(32, n_keywords)

    def forward(self, mel: torch.Tensor) -> torch.Tensor:
        return self.classifier(self.features(mel).mean(dim=-1))


def confusion_matrix(y_true: np.ndarray, y_pred: np.ndarray, n_classes: int) -> np.ndarray:
    cm = np.zeros((n_classes, n_classes), dtype=np.int64)
    np.add.at(cm, (y_true, y_pred), 1)
    return cm


def macro_recall(cm: np.ndarray) -> float:
    support = cm.sum(axis=1)
    present = support > 0
    return float((np.diag(cm)[present] / support[present]).mean())


@torch.no_grad()
def collect_predictions(model, loader, device):
    model.eval()
    y_true, y_pred = [], []
    for mel, label in loader:
        logits = model(mel.to(device))
        y_pred.append(logits.argmax(dim=1).numpy())  # error: DG207
        y_true.append(label.numpy())
    return np.concatenate(y_true), np.concatenate(y_pred)


def evaluate(n_batches: int = 4, n_keywords: int = 10) -> dict:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = KeywordNet(n_keywords=n_keywords).to(device)
    loader = [
        (torch.randn(16, 40, 98), torch.randint(0, n_keywords, (16,))) for _ in range(n_batches)
    ]
    y_true, y_pred = collect_predictions(model, loader, device)
    cm = confusion_matrix(y_true, y_pred, n_keywords)
    return {"accuracy": float((y_true == y_pred).mean()), "macro_recall": macro_recall(cm)}


if __name__ == "__main__":
    print(evaluate())
