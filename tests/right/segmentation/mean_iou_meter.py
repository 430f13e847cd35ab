"""A mean-IoU meter over batches that ignores void pixels and classes that never occur."""
from typing import List

import torch
from torch import Tensor


class MeanIoU:
    def __init__(self, num_classes: int, ignore_index: int = 255, device: torch.device = torch.device("cpu")):
        self.num_classes = num_classes
        self.ignore_index = ignore_index
        self.confusion = torch.zeros(num_classes, num_classes, dtype=torch.int64, device=device)

    @torch.no_grad()
    def update(self, logits: Tensor, target: Tensor) -> None:
        pred = logits.argmax(dim=1)
        keep = target != self.ignore_index
        index = target[keep] * self.num_classes + pred[keep]
        counts = torch.bincount(index, minlength=self.num_classes**2)
        self.confusion += counts.reshape(self.num_classes, self.num_classes)

    def per_class(self) -> Tensor:
        hit = self.confusion.diagonal().double()
        union = self.confusion.sum(0) + self.confusion.sum(1) - self.confusion.diagonal()
        # nan marks a class that neither occurs nor is predicted; nanmean leaves it out
        return torch.where(union > 0, hit / union.clamp(min=1), torch.nan)

    def compute(self) -> float:
        return self.per_class().nanmean().item()

    def reset(self) -> None:
        self.confusion.zero_()


def fake_logits(target: Tensor, num_classes: int, noise: float) -> Tensor:
    clean = torch.nn.functional.one_hot(target.clamp(max=num_classes - 1), num_classes).movedim(-1, 1).float()
    return clean + noise * torch.randn_like(clean)


def report(meter: MeanIoU, names: List[str]) -> None:
    for name, value in zip(names, meter.per_class().tolist()):
        print(f"  {name:<8s} {value:.3f}")


if __name__ == "__main__":
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    names = ["road", "grass", "sky", "unicorn"]
    meter = MeanIoU(len(names), device=device)
    for noise in (0.0, 0.5, 1.0):
        meter.reset()
        for _ in range(3):
            target = torch.randint(3, (2, 12, 12), device=device)
            logits = fake_logits(target, len(names), noise)
            logits[:, 3] -= 100  # never predicted, never there
            target[:, :2] = 255
            meter.update(logits, target)
        print(f"noise {noise}: mean IoU {meter.compute():.3f}")
    report(meter, names[:3])
