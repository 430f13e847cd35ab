# target: script
# source: https://github.com/sebastian-hofstaetter/matchmaker/issues/18
# truth: none, the repaired twin of ranker_distill_kl.py
from typing import NamedTuple

import torch
from torch import Tensor, nn


class RankBatch(NamedTuple):
    query: Tensor      # (B, D)
    docs: Tensor       # (B, L, D)
    teacher: Tensor    # (B, L) scores


class KLDivTeacherList(nn.Module):
    """List-wise distillation: match the distribution of a teacher over the candidate list."""

    def __init__(self) -> None:
        super().__init__()
        self.kl = nn.KLDivLoss(reduction="batchmean")

    def forward(self, scores: Tensor, labels: Tensor) -> Tensor:
        return self.kl(scores.log_softmax(-1), labels.softmax(-1))


class BiEncoder(nn.Module):
    def __init__(self, dim: int, out: int = 32) -> None:
        super().__init__()
        self.q = nn.Linear(dim, out)
        self.d = nn.Linear(dim, out)

    def forward(self, b: RankBatch) -> Tensor:
        return torch.einsum("bo,blo->bl", self.q(b.query), self.d(b.docs))


class TeacherModel:
    """Stands in for the cross encoder."""

    def __init__(self, dim: int, gen: torch.Generator) -> None:
        self.w = torch.randn(dim, dim, generator=gen) / dim

    def __call__(self, q: Tensor, d: Tensor) -> Tensor:
        return 2.0 * torch.einsum("bi,ij,blj->bl", q, self.w, d).tanh()


def sample(teacher: TeacherModel, gen: torch.Generator, b: int = 64, n_docs: int = 8, dim: int = 12) -> RankBatch:
    q = torch.randn(b, dim, generator=gen)
    d = torch.randn(b, n_docs, dim, generator=gen)
    return RankBatch(q, d, teacher(q, d))


def mean_top_probability(scores: Tensor) -> float:
    return scores.softmax(-1).max(-1).values.mean().item()


def main() -> None:
    torch.manual_seed(9)
    gen = torch.Generator().manual_seed(10)
    teacher = TeacherModel(12, gen)
    student, criterion = BiEncoder(12), KLDivTeacherList()
    opt = torch.optim.Adam(student.parameters(), lr=3e-3)
    for it in range(1, 601):
        batch = sample(teacher, gen)
        loss = criterion(student(batch), batch.teacher)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if it % 200 == 0:
            print(f"{it:4d} loss {loss.item():+.4f}")
    with torch.no_grad():
        batch = sample(teacher, gen, b=512)
        s = student(batch)
        gap = (s.softmax(-1) - batch.teacher.softmax(-1)).abs().sum(-1).mean().item()
        print("mean top probability: student %.3f teacher %.3f; L1 gap %.3f"
              % (mean_top_probability(s), mean_top_probability(batch.teacher), gap))


if __name__ == "__main__":
    main()
