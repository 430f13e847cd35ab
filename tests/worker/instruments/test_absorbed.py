"""Changes of weights that half precision rounds away are reported; those that arrive are not."""

from __future__ import annotations

from pathlib import Path

from instrument_harness import said, the_fault, watch

from drygrad.worker.instruments.absorbed import Absorbed

AVERAGE = """
mine, its = (nn.Linear(8, 8).to(torch.DTYPE) for _ in range(2))
with torch.no_grad():
    for p, q in zip(mine.parameters(), its.parameters()):
        p.mul_(DECAY)
        p.add_(q, alpha=1 - DECAY)
"""


def average(dtype: str, decay: float) -> str:
    return AVERAGE.replace("DTYPE", dtype).replace("DECAY", str(decay))


def test_a_decay_that_the_dtype_cannot_tell_from_one_is_reported(tmp_path: Path) -> None:
    run = watch(tmp_path, average("bfloat16", 0.999), Absorbed)
    the_fault(run, "DG423", 5, "bfloat16 rounds this change away at all 64 positions")


def test_a_decay_that_the_dtype_can_tell_from_one_is_not_reported(tmp_path: Path) -> None:
    assert said(watch(tmp_path, average("bfloat16", 0.9), Absorbed)) == []
    assert said(watch(tmp_path, average("float32", 0.9999), Absorbed)) == []
    assert said(watch(tmp_path, average("float16", 0.999), Absorbed)) == []


STEPS = """
model = nn.Linear(16, 16).to(torch.DTYPE)
optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
for _ in range(3):
    loss = model(torch.ones(4, 16, dtype=torch.DTYPE)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def steps(dtype: str, rate: float) -> str:
    return STEPS.replace("DTYPE", dtype).replace("RATE", str(rate))


def test_steps_that_leave_the_weights_as_they_were_are_reported(tmp_path: Path) -> None:
    run = watch(tmp_path, steps("bfloat16", 1e-5), Absorbed)
    the_fault(run, "DG423", 8, "% of the weights are unchanged by the step")


def test_steps_that_move_weights_are_not_reported(tmp_path: Path) -> None:
    assert said(watch(tmp_path, steps("bfloat16", 1e-2), Absorbed)) == []
    assert said(watch(tmp_path, steps("float32", 1e-6), Absorbed)) == []


def test_steps_of_a_warm_up_are_not_judged(tmp_path: Path) -> None:
    program = steps("bfloat16", 1e-2).replace(
        "for _ in", "torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: 1e-4)\nfor _ in"
    )
    assert said(watch(tmp_path, program, Absorbed)) == []
