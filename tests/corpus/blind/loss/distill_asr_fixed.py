# target: DistillationLoss.forward
"""Knowledge distillation of a keyword-spotting model (12 keywords, log-mel input)."""
import torch
from torch import nn
import torch.nn.functional as F


class KeywordNet(nn.Module):
    """Depthwise-separable CNN over log-mel frames; `width` selects teacher or student."""

    def __init__(self, n_mels: int = 40, n_keywords: int = 12, width: int = 64):
        super().__init__()
        self.stem = nn.Conv1d(n_mels, width, 5, padding=2)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.Conv1d(width, width, 9, padding=4, groups=width),
                nn.Conv1d(width, width, 1),
                nn.BatchNorm1d(width),
                nn.ReLU(),
            )
            for _ in range(3)
        )
        self.classifier = nn.Linear(width, n_keywords)

    def forward(self, mel: torch.Tensor) -> torch.Tensor:
        h = self.stem(mel)
        for block in self.blocks:
            h = h + block(h)
        return self.classifier(h.mean(dim=-1))


class DistillationLoss(nn.Module):
    def __init__(self, temperature: float = 4.0, alpha: float = 0.7):
        super().__init__()
        self.temperature = temperature
        self.alpha = alpha

    def forward(self, student_logits, teacher_logits, labels):
        t = self.temperature
        soft_teacher = F.softmax(teacher_logits / t, dim=-1)
        soft_student = F.log_softmax(student_logits / t, dim=-1)
        soft = F.kl_div(soft_student, soft_teacher, reduction="batchmean") * t * t
        hard = F.cross_entropy(student_logits, labels)
        return self.alpha * soft + (1 - self.alpha) * hard


def distill(student, teacher, batches, lr=1e-3):
    """Train ``student`` on (mel, label) batches; the teacher is frozen."""
    teacher.eval()
    student.train()
    criterion = DistillationLoss()
    optimizer = torch.optim.AdamW(student.parameters(), lr=lr)
    for mel, labels in batches:
        with torch.no_grad():
            teacher_logits = teacher(mel)
        loss = criterion(student(mel), teacher_logits, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return student
