# target: MultiTaskTrainer.step
"""Joint age / gender / landmark estimation from face crops."""
import torch
import torch.nn as nn
import torch.nn.functional as F

TASK_WEIGHTS = {"age": 0.02, "gender": 1.0, "landmarks": 5.0}


class FaceNet(nn.Module):
    def __init__(self, width: int = 16, n_landmarks: int = 5):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(3, width, 3, stride=2, padding=1), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, stride=2, padding=1), nn.BatchNorm2d(2 * width), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        )
        self.age = nn.Linear(2 * width, 1)
        self.gender = nn.Linear(2 * width, 2)
        self.landmarks = nn.Linear(2 * width, 2 * n_landmarks)

    def forward(self, x):
        z = self.backbone(x)
        return {"age": self.age(z).squeeze(1), "gender": self.gender(z), "landmarks": self.landmarks(z)}


def task_losses(pred, batch):
    return {
        "age": F.l1_loss(pred["age"], batch["age"]),
        "gender": F.cross_entropy(pred["gender"], batch["gender"]),
        "landmarks": F.mse_loss(pred["landmarks"], batch["landmarks"]),
    }


def combine_losses(losses, weights=TASK_WEIGHTS):
    weighted = torch.stack([weights[name] * value for name, value in losses.items()])
    return weighted.sum()


class MultiTaskTrainer:
    def __init__(self, model: FaceNet, lr: float = 1e-3):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
        self.history = []

    def step(self, batch):
        self.model.train()
        losses = task_losses(self.model(batch["image"]), batch)
        loss = combine_losses(losses)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.history.append({k: v.item() for k, v in losses.items()})
        return loss.item()


def synthetic_batch(n=8, size=32):
    return {
        "image": torch.rand(n, 3, size, size),
        "age": torch.randint(1, 90, (n,)).float(),
        "gender": torch.randint(0, 2, (n,)),
        "landmarks": torch.rand(n, 10),
    }


if __name__ == "__main__":
    trainer = MultiTaskTrainer(FaceNet())
    for _ in range(10):
        print(trainer.step(synthetic_batch()))
