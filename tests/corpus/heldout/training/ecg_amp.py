# target: ECGTrainer.fit
# truth: On CUDA the gradients are clipped while still multiplied by the loss scale (65536), so they are always cut to
#   norm max_norm and then divided by the scale: the update is tens of thousands of times too small and SGD hardly
#   moves; no error, the loss stays flat.
"""Mixed-precision training of a 1-D residual network for ECG rhythm classification."""
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass(frozen=True)
class TrainConfig:
    lr: float = 0.1
    momentum: float = 0.9
    weight_decay: float = 1e-4
    max_norm: float = 1.0
    epochs: int = 40


class ResBlock1d(nn.Module):
    def __init__(self, c_in, c_out, stride):
        super().__init__()
        self.conv1 = nn.Conv1d(c_in, c_out, 7, stride, padding=3, bias=False)
        self.bn1 = nn.BatchNorm1d(c_out)
        self.conv2 = nn.Conv1d(c_out, c_out, 7, padding=3, bias=False)
        self.bn2 = nn.BatchNorm1d(c_out)
        self.skip = nn.Conv1d(c_in, c_out, 1, stride, bias=False)

    def forward(self, x):
        h = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(h)) + self.skip(x))


class ECGNet(nn.Module):
    def __init__(self, leads=12, n_classes=5, widths=(32, 64, 64)):
        super().__init__()
        chans = (leads, *widths)
        self.blocks = nn.Sequential(*(ResBlock1d(i, o, 2) for i, o in zip(chans, widths)))
        self.head = nn.Linear(widths[-1], n_classes)

    def forward(self, x):
        return self.head(self.blocks(x).mean(dim=2))


class ScaledStep:
    """Backward pass, clipping and optimizer step under a gradient scaler."""

    def __init__(self, model, optimizer, scaler, max_norm):
        self.model, self.optimizer, self.scaler = model, optimizer, scaler
        self.max_norm = max_norm

    def __call__(self, loss):
        self.optimizer.zero_grad()
        self.scaler.scale(loss).backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), self.max_norm)  # error: DG720
        self.scaler.step(self.optimizer)
        self.scaler.update()


class ECGTrainer:
    def __init__(self, model, cfg, device):
        self.model, self.cfg, self.device = model.to(device), cfg, device
        self.amp = device.type == "cuda"
        self.optimizer = torch.optim.SGD(
            model.parameters(), lr=cfg.lr, momentum=cfg.momentum, weight_decay=cfg.weight_decay
        )
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, cfg.epochs)
        scaler = torch.amp.GradScaler(device.type, enabled=self.amp)
        self.step = ScaledStep(self.model, self.optimizer, scaler, cfg.max_norm)

    def train_epoch(self, loader):
        self.model.train()
        total = torch.zeros((), device=self.device)
        for signal, rhythm in loader:
            signal, rhythm = signal.to(self.device), rhythm.to(self.device)
            with torch.autocast(self.device.type, dtype=torch.float16, enabled=self.amp):
                loss = F.cross_entropy(self.model(signal), rhythm)
            self.step(loss)
            total += loss.detach()
        self.scheduler.step()
        return total.item() / len(loader)

    def fit(self, loader):
        return [self.train_epoch(loader) for _ in range(self.cfg.epochs)]
