# target: evaluate
# truth: The confusion matrix is filled in a Python loop over every pixel, which indexes tensors one element at a time; evaluating a few small images takes seconds instead of milliseconds.
import torch
import torch.nn as nn

CLASSES = ("road", "sidewalk", "vehicle", "person", "background")
IGNORE = 255


class TinyUNet(nn.Module):
    def __init__(self, n_classes=len(CLASSES), width=12):
        super().__init__()
        self.down1 = nn.Sequential(nn.Conv2d(3, width, 3, padding=1), nn.ReLU())
        self.down2 = nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(width, 2 * width, 3, padding=1), nn.ReLU())
        self.up = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.out = nn.Conv2d(2 * width, n_classes, 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.up(self.down2(a))
        return self.out(torch.cat([a, b], dim=1))


class MeanIoU:
    def __init__(self, n_classes):
        self.n = n_classes
        self.cm = torch.zeros(n_classes, n_classes, dtype=torch.long)

    def update(self, pred, target):
        """pred and target are (B, H, W) class maps; IGNORE pixels do not count."""
        valid = target != IGNORE
        target, pred = target[valid], pred[valid]
        for t, p in zip(target, pred):  # error: DG607
            self.cm[t, p] += 1

    def compute(self):
        inter = self.cm.diag().float()
        union = self.cm.sum(0) + self.cm.sum(1) - self.cm.diag()
        present = union > 0
        return (inter[present] / union[present]).mean().item()


def fake_scenes(n_batches, batch_size=2, size=64):
    for _ in range(n_batches):
        masks = torch.randint(0, len(CLASSES), (batch_size, size, size))
        masks[:, :2] = IGNORE
        yield torch.rand(batch_size, 3, size, size), masks


@torch.no_grad()
def evaluate(model: TinyUNet, n_batches: int = 8) -> float:
    model.eval()
    metric = MeanIoU(len(CLASSES))
    for images, masks in fake_scenes(n_batches):
        metric.update(model(images).argmax(dim=1), masks)
    return metric.compute()


if __name__ == "__main__":
    torch.manual_seed(0)
    print(f"mIoU {evaluate(TinyUNet()):.3f}")
