# target: HintDistiller.train_epoch
"""FitNets-style distillation: match intermediate feature maps captured with forward hooks."""
from typing import Dict, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class FeatureTap:
    """Records the outputs of named submodules of a network."""

    def __init__(self, network: nn.Module, names: Sequence[str]):
        self.outputs: Dict[str, Tensor] = {}
        modules = dict(network.named_modules())
        self.handles = [modules[n].register_forward_hook(self._make_hook(n)) for n in names]

    def _make_hook(self, name: str):
        def hook(module, inputs, output):
            self.outputs[name] = output
        return hook

    def __getitem__(self, name: str) -> Tensor:
        return self.outputs[name]

    def close(self) -> None:
        for handle in self.handles:
            handle.remove()


class HintLoss(nn.Module):
    """Mean squared error between normalised teacher maps and projected student maps."""

    def __init__(self, student_channels: Sequence[int], teacher_channels: Sequence[int]):
        super().__init__()
        self.project = nn.ModuleList(
            nn.Conv2d(s, t, 1) for s, t in zip(student_channels, teacher_channels)
        )

    def forward(self, student_maps: Sequence[Tensor], teacher_maps: Sequence[Tensor]) -> Tensor:
        loss = student_maps[0].new_zeros(())
        for proj, s, t in zip(self.project, student_maps, teacher_maps):
            s = F.interpolate(proj(s), size=t.shape[-2:], mode="bilinear", align_corners=False)
            loss = loss + F.mse_loss(F.normalize(s, dim=1), F.normalize(t, dim=1))
        return loss


class HintDistiller:
    def __init__(self, student, teacher, student_names, teacher_names, hint: HintLoss,
                 device: torch.device, weight: float = 100.0, lr: float = 0.05):
        self.student, self.hint = student.to(device), hint.to(device)
        self.teacher = teacher.to(device).eval().requires_grad_(False)
        self.student_names, self.teacher_names = student_names, teacher_names
        self.student_tap = FeatureTap(self.student, student_names)
        self.teacher_tap = FeatureTap(self.teacher, teacher_names)
        self.device, self.weight = device, weight
        params = [*self.student.parameters(), *self.hint.parameters()]
        self.optimizer = torch.optim.SGD(params, lr=lr, momentum=0.9)

    def step(self, images: Tensor, labels: Tensor) -> Tensor:
        with torch.no_grad():
            self.teacher(images)
        logits = self.student(images)
        hint = self.hint(
            [self.student_tap[n] for n in self.student_names],
            [self.teacher_tap[n] for n in self.teacher_names],
        )
        loss = F.cross_entropy(logits, labels) + self.weight * hint
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def train_epoch(self, loader) -> float:
        self.student.train()
        total = torch.zeros((), device=self.device)
        for images, labels in loader:
            total += self.step(images.to(self.device), labels.to(self.device))
        return total.item() / len(loader)
