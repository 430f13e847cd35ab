# source: https://github.com/wkentaro/pytorch-fcn/pull/56
# target: Trainer.train_epoch
# truth: validation runs in the middle of an epoch and leaves the model in evaluation mode, so the rest of the epoch is
#   trained without dropout and without updates of the batch-norm statistics
import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def cross_entropy2d(score, target, size_average=True):
    log_p = F.log_softmax(score, dim=1)
    loss = F.nll_loss(log_p, target, ignore_index=-1, reduction="sum")
    if size_average:
        loss = loss / (target >= 0).sum().clamp(min=1)
    return loss


def label_accuracy_score(label_true, label_pred, n_class):
    mask = (label_true >= 0) & (label_true < n_class)
    hist = torch.bincount(n_class * label_true[mask] + label_pred[mask], minlength=n_class ** 2)
    hist = hist.reshape(n_class, n_class).float()
    iu = hist.diag() / (hist.sum(1) + hist.sum(0) - hist.diag()).clamp(min=1)
    return (hist.diag().sum() / hist.sum()).item(), iu.mean().item()


class MiniFCN(nn.Module):
    def __init__(self, n_class=4, width=8):
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(3, width, 3, stride=2, padding=1), nn.BatchNorm2d(width), nn.ReLU(),
                                  nn.Dropout2d(0.5))
        self.score = nn.Conv2d(width, n_class, 1)
        self.up = nn.ConvTranspose2d(n_class, n_class, 4, stride=2, padding=1, bias=False)

    def forward(self, x):
        return self.up(self.score(self.down(x)))


class Trainer:
    def __init__(self, device, model, optimizer, train_loader, val_loader, max_iter, interval_validate=None):
        self.device = device
        self.model = model
        self.optim = optimizer
        self.train_loader = train_loader
        self.val_loader = val_loader
        self.interval_validate = interval_validate or len(train_loader)
        self.max_iter = max_iter
        self.epoch = 0
        self.iteration = 0
        self.best_mean_iu = 0.0
        self.val_log = []

    def validate(self):
        self.model.eval()
        n_class = self.model.score.out_channels
        val_loss, trues, preds = 0.0, [], []
        for data, target in self.val_loader:
            data, target = data.to(self.device), target.to(self.device)
            with torch.no_grad():
                score = self.model(data)
            val_loss += cross_entropy2d(score, target).item()
            trues.append(target.cpu())
            preds.append(score.argmax(dim=1).cpu())
        acc, mean_iu = label_accuracy_score(torch.cat(trues), torch.cat(preds), n_class)
        self.best_mean_iu = max(self.best_mean_iu, mean_iu)
        self.val_log.append((self.epoch, self.iteration, val_loss / len(self.val_loader), acc, mean_iu))  # culprit

    def train_epoch(self):
        self.model.train()
        for batch_idx, (data, target) in enumerate(self.train_loader):
            self.iteration = batch_idx + self.epoch * len(self.train_loader)
            if self.iteration % self.interval_validate == 0:
                self.validate()
            data, target = data.to(self.device), target.to(self.device)
            self.optim.zero_grad()
            loss = cross_entropy2d(self.model(data), target)
            if not math.isfinite(loss.item()):
                raise ValueError("loss is nan while training")
            loss.backward()
            self.optim.step()
            if self.iteration >= self.max_iter:
                break

    def train(self):
        max_epoch = int(math.ceil(self.max_iter / len(self.train_loader)))
        for epoch in range(max_epoch):
            self.epoch = epoch
            self.train_epoch()
        for row in self.val_log:
            print("epoch {} iter {} loss {:.4f} acc {:.3f} mean iu {:.3f}".format(*row))


if __name__ == "__main__":
    torch.manual_seed(0)
    images, labels = torch.randn(16, 3, 12, 12), torch.randint(-1, 4, (16, 12, 12))
    loader = DataLoader(TensorDataset(images, labels), batch_size=2, shuffle=True)
    val = DataLoader(TensorDataset(images[:4], labels[:4]), batch_size=2)
    model = MiniFCN()
    sgd = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    Trainer(torch.device("cpu"), model, sgd, loader, val, max_iter=16, interval_validate=3).train()
    print("batches seen by batch norm:", int(model.down[1].num_batches_tracked))
