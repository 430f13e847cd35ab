"""Metrics that accumulate over batches: accuracy, mean loss and a confusion matrix with per-class F1."""
import torch
import torch.nn.functional as F


class MeanMeter:
    def __init__(self, device):
        self.total = torch.zeros((), device=device, dtype=torch.float64)
        self.count = 0

    def update(self, value, n=1):
        self.total += value.detach().double() * n
        self.count += n

    def compute(self):
        if self.count == 0:
            return float("nan")
        return self.total.item() / self.count


class ConfusionMatrix:
    def __init__(self, num_classes, device):
        self.k = num_classes
        self.mat = torch.zeros(num_classes, num_classes, dtype=torch.long, device=device)

    def update(self, pred, target):
        flat = target * self.k + pred
        self.mat += torch.bincount(flat, minlength=self.k**2).view(self.k, self.k)

    def accuracy(self):
        return self.mat.diagonal().sum() / self.mat.sum().clamp(min=1)

    def f1(self):
        tp = self.mat.diagonal().float()
        fp = self.mat.sum(dim=0) - tp
        fn = self.mat.sum(dim=1) - tp
        return 2 * tp / (2 * tp + fp + fn).clamp(min=1)

    def reset(self):
        self.mat.zero_()


def main():
    torch.manual_seed(11)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    classes, dim = 4, 10
    centers = torch.randn(classes, dim, device=device) * 2
    model = torch.nn.Linear(dim, classes).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.5)

    def batch(n):
        y = torch.randint(classes, (n,), device=device)
        return centers[y] + torch.randn(n, dim, device=device), y

    for _ in range(30):
        x, y = batch(64)
        opt.zero_grad()
        F.cross_entropy(model(x), y).backward()
        opt.step()

    loss_meter, confusion = MeanMeter(device), ConfusionMatrix(classes, device)
    model.eval()
    with torch.no_grad():
        for n in (50, 50, 20):
            x, y = batch(n)
            logits = model(x)
            loss_meter.update(F.cross_entropy(logits, y), n)
            confusion.update(logits.argmax(-1), y)
    print(f"loss {loss_meter.compute():.3f}  accuracy {confusion.accuracy().item():.3f}")
    for c, value in enumerate(confusion.f1().tolist()):
        print(f"class {c}: F1 {value:.3f}")
    confusion.reset()


if __name__ == "__main__":
    main()
