# target: KDLoss.forward
"""Knowledge distillation loss (Hinton et al., 2015) and a small training helper."""
from typing import Iterable, Tuple

import torch
import torch.nn as nn
import torch.nn.functional as F


class KDLoss(nn.Module):
    """alpha * T^2 * KL(teacher || student) + (1 - alpha) * cross entropy.

    Args:
        temperature: softening of both distributions.
        alpha: weight of the distillation term.
    """

    def __init__(self, temperature: float = 4.0, alpha: float = 0.7):
        super().__init__()
        if not 0.0 <= alpha <= 1.0:
            raise ValueError(f"alpha must be in [0, 1], got {alpha}")
        self.temperature = temperature
        self.alpha = alpha

    def forward(self, student_logits: torch.Tensor, teacher_logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Logits are (batch, classes), labels (batch,) with class indices."""
        t = self.temperature
        student = F.log_softmax(student_logits / t, dim=-1)
        teacher = F.softmax(teacher_logits.detach() / t, dim=-1)
        soft = F.kl_div(student, teacher, reduction="batchmean") * t * t
        hard = F.cross_entropy(student_logits, labels)
        return self.alpha * soft + (1.0 - self.alpha) * hard


def distill(
    student: nn.Module,
    teacher: nn.Module,
    data: Iterable[Tuple[torch.Tensor, torch.Tensor]],
    criterion: KDLoss,
    optimizer: torch.optim.Optimizer,
) -> float:
    """One pass over the data; returns the mean loss."""
    teacher.eval()
    student.train()
    total, steps = 0.0, 0
    for x, y in data:
        with torch.no_grad():
            teacher_logits = teacher(x)
        loss = criterion(student(x), teacher_logits, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
        steps += 1
    return total / max(steps, 1)
