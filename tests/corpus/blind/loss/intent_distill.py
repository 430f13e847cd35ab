# target: Distiller.training_step
# truth: Silently wrong: kl_div expects log-probabilities as its input but gets the student's probabilities, so the distillation term is not a KL divergence (it comes out negative) and does not pull the student to the teacher.
"""Distil the 12-layer intent classifier into the on-device student."""
from typing import Any, Dict, Optional

import torch
import torch.nn as nn
import torch.nn.functional as F

DEFAULT_CONFIG: Dict[str, Any] = {
    "temperature": 3.0,
    "alpha": 0.7,
    "lr": 1e-3,
    "weight_decay": 1e-2,
    "max_norm": 1.0,
}


class BowClassifier(nn.Module):
    """Bag-of-words student; the teacher may be any module tokens -> logits."""

    def __init__(self, vocab_size: int, n_intents: int, dim: int = 64):
        super().__init__()
        self.bag = nn.EmbeddingBag(vocab_size, dim, mode="mean", padding_idx=0)
        self.mlp = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Dropout(0.1), nn.Linear(dim, n_intents))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.mlp(self.bag(tokens))


class Distiller:
    def __init__(self, teacher: nn.Module, student: nn.Module, config: Optional[Dict[str, Any]] = None):
        self.cfg = {**DEFAULT_CONFIG, **(config or {})}
        self.teacher = teacher.eval().requires_grad_(False)
        self.student = student
        self.optimizer = torch.optim.AdamW(
            student.parameters(), lr=self.cfg["lr"], weight_decay=self.cfg["weight_decay"]
        )

    def distillation_loss(self, student_logits: torch.Tensor, teacher_logits: torch.Tensor) -> torch.Tensor:
        t = self.cfg["temperature"]
        soft_teacher = F.softmax(teacher_logits / t, dim=-1)
        soft_student = F.softmax(student_logits / t, dim=-1)  # error: DG311
        return F.kl_div(soft_student, soft_teacher, reduction="batchmean") * t * t

    def training_step(self, tokens: torch.Tensor, labels: torch.Tensor) -> Dict[str, float]:
        self.student.train()
        with torch.no_grad():
            teacher_logits = self.teacher(tokens)
        student_logits = self.student(tokens)

        soft = self.distillation_loss(student_logits, teacher_logits)
        hard = F.cross_entropy(student_logits, labels)
        loss = self.cfg["alpha"] * soft + (1 - self.cfg["alpha"]) * hard

        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.student.parameters(), self.cfg["max_norm"])
        self.optimizer.step()
        agree = (student_logits.argmax(-1) == teacher_logits.argmax(-1)).float().mean()
        return {"loss": loss.item(), "soft": soft.item(), "hard": hard.item(), "agreement": agree.item()}
