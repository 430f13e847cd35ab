# target: distillation_loss
# truth: kl_div wants log-probabilities of the student and gets probabilities: the loss is wrong, and negative.
"""Knowledge distillation: a small student learns from the softened scores of a teacher."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Student(nn.Module):
    def __init__(self, features=40, classes=8):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(features, 16), nn.ReLU(), nn.Linear(16, classes))

    def forward(self, x):
        return self.layers(x)


def distillation_loss(student_logits, teacher_logits, labels, temperature=4.0, alpha=0.7):
    soft_targets = F.softmax(teacher_logits / temperature, dim=1)
    student = F.softmax(student_logits / temperature, dim=1)  # error: DG311
    soft = F.kl_div(student, soft_targets, reduction="batchmean") * temperature**2
    hard = F.cross_entropy(student_logits, labels)
    return alpha * soft + (1 - alpha) * hard


def distill(teacher, student, loader, epochs=1, lr=0.01):
    teacher.eval()
    student.train()
    optimizer = torch.optim.SGD(student.parameters(), lr=lr, momentum=0.9)
    for _ in range(epochs):
        for x, labels in loader:
            with torch.no_grad():
                teacher_logits = teacher(x)
            loss = distillation_loss(student(x), teacher_logits, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    torch.manual_seed(0)
    teacher = nn.Sequential(nn.Linear(40, 64), nn.ReLU(), nn.Linear(64, 8))
    distill(teacher, Student(), [(torch.randn(16, 40), torch.randint(0, 8, (16,))) for _ in range(3)])
