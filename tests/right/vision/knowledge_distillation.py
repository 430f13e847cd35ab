"""Distil a trained teacher into a small student with softened targets."""
import torch
import torch.nn.functional as F
from torch import nn

TEMPERATURE, ALPHA = 3.0, 0.7


def distillation_loss(student_logits, teacher_logits, labels):
    soft = F.kl_div(
        F.log_softmax(student_logits / TEMPERATURE, dim=1),
        F.log_softmax(teacher_logits / TEMPERATURE, dim=1),
        reduction="batchmean",
        log_target=True,
    ) * TEMPERATURE**2
    hard = F.cross_entropy(student_logits, labels)
    return ALPHA * soft + (1 - ALPHA) * hard, soft.detach(), hard.detach()


def convnet(width):
    return nn.Sequential(
        nn.Conv2d(1, width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(width, width, 3, padding=1), nn.ReLU(), nn.AdaptiveMaxPool2d(1), nn.Flatten(),
        nn.Linear(width, 3),
    )


def glyphs(n, device):
    y = torch.randint(3, (n,), device=device)
    eye = torch.eye(8, device=device)
    templates = torch.stack([eye, eye.flip(0), (eye + eye.flip(0)).clamp(max=1)])
    x = templates[y].unsqueeze(1)
    return x + 0.4 * torch.randn_like(x), y


def accuracy(model, device, n=200):
    model.eval()
    with torch.no_grad():
        x, y = glyphs(n, device)
        return (model(x).argmax(1) == y).float().mean().item()


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    teacher, student = convnet(16).to(device), convnet(4).to(device)
    opt = torch.optim.Adam(teacher.parameters(), lr=1e-2)
    for _ in range(50):
        x, y = glyphs(24, device)
        opt.zero_grad()
        F.cross_entropy(teacher(x), y).backward()
        opt.step()
    teacher.eval().requires_grad_(False)
    print(f"teacher {accuracy(teacher, device):.2f}")

    opt = torch.optim.Adam(student.parameters(), lr=1e-2)
    student.train()
    for step in range(60):
        x, y = glyphs(24, device)
        with torch.no_grad():
            target = teacher(x)
        loss, soft, hard = distillation_loss(student(x), target, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 20 == 0:
            print(f"step {step}: soft {soft.item():.3f} hard {hard.item():.3f}")
    print(f"student {accuracy(student, device):.2f}")


if __name__ == "__main__":
    main()
