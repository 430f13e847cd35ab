# target: DistillTrainer.fit
# truth: The teacher is a submodule of Distiller, so self.distiller.train() puts it back into training mode: its soft
#   targets come from dropout and batch statistics, and its BatchNorm running statistics drift although it is frozen; no
#   error, only wrong targets and worse accuracy.
"""Knowledge distillation of an image classifier (Hinton et al.) with a frozen teacher."""
import torch
import torch.nn.functional as F
from torch import nn


class Distiller(nn.Module):
    """Holds both networks so that one module can be moved, saved and wrapped."""

    def __init__(self, student, teacher, temperature=4.0, alpha=0.7):
        super().__init__()
        self.student = student
        self.teacher = teacher.eval().requires_grad_(False)
        self.temperature, self.alpha = temperature, alpha

    def soft_targets(self, images):
        with torch.no_grad():
            return F.log_softmax(self.teacher(images) / self.temperature, dim=1)

    def forward(self, images, labels):
        logits = self.student(images)
        soft = F.kl_div(
            F.log_softmax(logits / self.temperature, dim=1),
            self.soft_targets(images),
            reduction="batchmean", log_target=True,
        ) * self.temperature ** 2
        hard = F.cross_entropy(logits, labels)
        return self.alpha * soft + (1.0 - self.alpha) * hard


class DistillTrainer:
    def __init__(self, distiller, train_loader, val_loader, device, epochs=30, lr=0.05):
        self.distiller = distiller.to(device)
        self.train_loader, self.val_loader = train_loader, val_loader
        self.device, self.epochs = device, epochs
        self.optimizer = torch.optim.SGD(
            distiller.student.parameters(), lr=lr, momentum=0.9, weight_decay=1e-4
        )
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, epochs)

    def train_epoch(self):
        self.distiller.train()  # error: DG769
        total = torch.zeros((), device=self.device)
        for images, labels in self.train_loader:
            images, labels = images.to(self.device), labels.to(self.device)
            loss = self.distiller(images, labels)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            total += loss.detach()
        return total.item() / len(self.train_loader)

    @torch.no_grad()
    def validate(self):
        student = self.distiller.student
        student.eval()
        correct, seen = torch.zeros((), device=self.device), 0
        for images, labels in self.val_loader:
            images, labels = images.to(self.device), labels.to(self.device)
            correct += (student(images).argmax(dim=1) == labels).sum()
            seen += labels.numel()
        return correct.item() / seen

    def fit(self):
        history = []
        for _ in range(self.epochs):
            loss = self.train_epoch()
            self.scheduler.step()
            history.append((loss, self.validate()))
        return history
