# target: Distiller.step
# truth: F.kl_div expects log-probabilities as its input but gets probabilities, so the soft loss is not a divergence
#   (it is negative here and not zero for equal logits) and its gradient pushes the student towards a one-hot on the
#   teacher's top class; no error.
"""Knowledge distillation for an intent classifier: a small student learns from a large teacher's outputs."""
from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class DistilConfig:
    temperature: float = 3.0
    soft_weight: float = 0.7
    max_norm: float = 1.0


def soft_target_loss(student_logits: Tensor, teacher_logits: Tensor, temperature: float) -> Tensor:
    """Divergence of the student from the teacher at the given temperature, scaled back by its square."""
    student = F.softmax(student_logits / temperature, dim=-1)  # error: DG311
    teacher = F.softmax(teacher_logits / temperature, dim=-1)
    return F.kl_div(student, teacher, reduction="batchmean") * temperature**2


class Distiller:
    """Trains `student`; the teacher is only evaluated.

    Both map a batch of token ids (batch, time) to logits (batch, intents).
    """

    def __init__(self, student: nn.Module, teacher: nn.Module, optimizer: torch.optim.Optimizer, cfg: DistilConfig = DistilConfig()):
        self.student = student
        self.teacher = teacher.eval().requires_grad_(False)
        self.optimizer = optimizer
        self.cfg = cfg

    def loss(self, tokens: Tensor, labels: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        with torch.no_grad():
            teacher_logits = self.teacher(tokens)
        student_logits = self.student(tokens)
        hard = F.cross_entropy(student_logits, labels)
        soft = soft_target_loss(student_logits, teacher_logits, self.cfg.temperature)
        total = (1 - self.cfg.soft_weight) * hard + self.cfg.soft_weight * soft
        return total, {"hard": hard.detach(), "soft": soft.detach()}

    def step(self, tokens: Tensor, labels: Tensor) -> dict[str, Tensor]:
        self.student.train()
        total, parts = self.loss(tokens, labels)
        self.optimizer.zero_grad(set_to_none=True)
        total.backward()
        nn.utils.clip_grad_norm_(self.student.parameters(), self.cfg.max_norm)
        self.optimizer.step()
        return parts

    @torch.no_grad()
    def agreement(self, batches) -> float:
        """Share of inputs on which student and teacher choose the same intent."""
        self.student.eval()
        same, seen = 0, 0
        for tokens, _ in batches:
            match = self.student(tokens).argmax(dim=-1) == self.teacher(tokens).argmax(dim=-1)
            same = same + match.sum()
            seen += len(match)
        return float(same) / max(seen, 1)
