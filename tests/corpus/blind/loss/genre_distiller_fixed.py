# target: Distiller.training_step
"""Distil a large music-genre classifier into a small one."""
import torch
from torch import nn, Tensor
import torch.nn.functional as F


def soft_target_loss(student_logits: Tensor, teacher_logits: Tensor, temperature: float) -> Tensor:
    """Hinton et al. (2015), scaled by T^2 so that gradients keep their magnitude."""
    student = F.log_softmax(student_logits / temperature, dim=-1)
    teacher = F.softmax(teacher_logits / temperature, dim=-1)
    return F.kl_div(student, teacher, reduction="batchmean") * temperature ** 2


class GenreNet(nn.Module):
    """1-D CNN over mel spectrograms (B, n_mels, T) with average pooling over time."""

    def __init__(self, n_mels: int, n_genres: int, width: int, depth: int):
        super().__init__()
        layers, c = [], n_mels
        for _ in range(depth):
            layers += [nn.Conv1d(c, width, 5, padding=2), nn.BatchNorm1d(width), nn.ReLU()]
            c = width
        self.features = nn.Sequential(*layers)
        self.fc = nn.Linear(width, n_genres)

    def forward(self, mel: Tensor) -> Tensor:
        return self.fc(self.features(mel).mean(dim=-1))


class Distiller(nn.Module):
    def __init__(self, teacher: nn.Module, student: nn.Module, temperature: float = 4.0,
                 alpha: float = 0.9, lr: float = 1e-3):
        super().__init__()
        self.teacher = teacher.eval().requires_grad_(False)
        self.student = student
        self.temperature, self.alpha, self.lr = temperature, alpha, lr

    def train(self, mode: bool = True):
        super().train(mode)
        self.teacher.eval()  # keep the teacher's batch norm fixed
        return self

    def training_step(self, batch, batch_idx: int) -> dict:
        mel, genre = batch
        with torch.no_grad():
            teacher_logits = self.teacher(mel)
        student_logits = self.student(mel)
        soft = soft_target_loss(student_logits, teacher_logits, self.temperature)
        hard = F.cross_entropy(student_logits, genre)
        loss = self.alpha * soft + (1 - self.alpha) * hard
        return {"loss": loss, "soft": soft.detach(), "hard": hard.detach()}

    @torch.no_grad()
    def agreement(self, mel: Tensor) -> float:
        """Share of clips on which student and teacher predict the same genre."""
        self.eval()
        same = self.student(mel).argmax(-1) == self.teacher(mel).argmax(-1)
        return same.float().mean().item()

    def configure_optimizers(self):
        return torch.optim.Adam(self.student.parameters(), lr=self.lr)
