"""The order of a training loop as it ran; loops that are sound give nothing."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent

import pytest
import torch
from instrument_harness import related, said, spots, watch

from drygrad.worker.instruments.training import Training

SETUP = """\
model, head = nn.Linear(3, 3), nn.Linear(3, 1)
everything = lambda: [*model.parameters(), *head.parameters()]
optimizer = torch.optim.SGD(everything(), lr=0.1)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
scaler = torch.amp.GradScaler("cpu")
x = torch.ones(2, 3)
for i in range(4):
"""
FIRST = SETUP.count("\n") + 1

FAULTS = {
    "head(model(x)).sum().backward()\noptimizer.step()": ("DG703", 0),
    "other = torch.optim.SGD([torch.ones(1)], lr=0.1)\nother.zero_grad()\nhead(model(x)).sum().backward()\n"
    "optimizer.step()": ("DG703", 2),
    "head(model(x)).sum().backward()\noptimizer.zero_grad()\noptimizer.step()": ("DG708", 1),
    "head(model(x)).sum().backward()\nmodel.zero_grad()\nhead.zero_grad()\noptimizer.step()": ("DG708", 1),
    "optimizer.zero_grad()\nloss = head(model(x)).sum()\noptimizer.step()\nloss.backward()": ("DG701", 2),
    "optimizer.zero_grad()\n(head(model(x)).sum() / 2).backward()\nif i % 2:\n    optimizer.step()": ("DG704", 0),
    "optimizer.zero_grad()\nwith torch.autocast('cpu'):\n    head(model(x)).sum().backward()\noptimizer.step()": (
        "DG707",
        2,
    ),
    "optimizer.zero_grad()\nhead(model(x)).sum().backward()\nscheduler.step()\noptimizer.step()": ("DG709", 2),
    "optimizer.zero_grad()\nscaler.scale(head(model(x)).sum()).backward()\noptimizer.step()\nscaler.update()": (
        "DG722",
        2,
    ),
    "optimizer.zero_grad()\nwith torch.autocast('cpu', torch.float16):\n    loss = head(model(x)).sum()\n"
    "loss.float().backward()\noptimizer.step()": ("DG724", 3),
}


@pytest.mark.parametrize("body", FAULTS)
def test_what_the_order_breaks(tmp_path: Path, body: str) -> None:
    code, line = FAULTS[body]
    run = watch(tmp_path, SETUP + indent(body, "    "), Training)
    if code == "DG722":
        run.faults = run.faults[:1]  # scaler.update() raises: it has nothing to update from
    assert spots(run) == [(code, FIRST + line)]
    assert all(place >= FIRST for place in related(run.faults[0]).values())


SOUND = [
    "optimizer.zero_grad()\nhead(model(x)).sum().backward()\noptimizer.step()\nscheduler.step()",
    "head(model(x)).sum().backward()\noptimizer.step()\noptimizer.zero_grad(set_to_none=False)",
    "head(model(x)).sum().backward()\noptimizer.step()\nfor p in everything():\n    p.grad.zero_()",
    "head(model(x)).sum().backward()\noptimizer.step()\nfor p in everything():\n    p.grad = None",
    "model.zero_grad(); head.zero_grad()\nhead(model(x)).sum().backward()\n"
    "nn.utils.clip_grad_norm_(model.parameters(), 1.0)\noptimizer.step()",
    # accumulation over two batches
    "(head(model(x)).sum() / 2).backward()\nif i % 2:\n    optimizer.step()\n    optimizer.zero_grad()",
    # two losses, one step
    "optimizer.zero_grad()\nmodel(x).sum().backward()\nhead(x).sum().backward()\noptimizer.step()",
    # float16 with a scaler, as documented
    "optimizer.zero_grad()\nwith torch.autocast('cpu', torch.float16):\n    loss = head(model(x)).sum()\n"
    "scaler.scale(loss).backward()\nscaler.unscale_(optimizer)\nnn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
    "scaler.step(optimizer)\nscaler.update()\nscheduler.step()",
    # a closure that runs backward inside the step
    "def closure():\n    optimizer.zero_grad()\n    loss = head(model(x)).sum()\n    loss.backward()\n    return loss\n"
    "optimizer.step(closure)",
    # a closure that an optimizer calls several times in one step
    "search = torch.optim.LBFGS(model.parameters(), max_iter=4)\ndef closure():\n    search.zero_grad()\n"
    "    loss = model(x).square().mean()\n    loss.backward()\n    return loss\nsearch.step(closure)",
    # a part of the gradients is kept by intention
    "head(model(x)).sum().backward()\noptimizer.step()\nfor p in (*model.parameters(), *head.parameters()):\n"
    "    p.grad.mul_(0.5)",
    # gradients of the input, several times, and none of them applied
    "for _ in range(2):\n    given = x.clone().requires_grad_()\n    model.zero_grad()\n"
    "    head(model(given)).sum().backward()\noptimizer.zero_grad()\nhead(model(x)).sum().backward()\noptimizer.step()",
    # evaluation between the steps
    "optimizer.zero_grad()\nhead(model(x)).sum().backward()\noptimizer.step()\nwith torch.no_grad():\n    model(x)",
]


@pytest.mark.parametrize("body", SOUND)
def test_sound_loops(tmp_path: Path, body: str) -> None:
    run = watch(tmp_path, SETUP + indent(body, "    "), Training)
    assert "error" not in run.result
    assert said(run) == []


GAN = """
generator, critic = nn.Linear(2, 2), nn.Linear(2, 1)
for_generator = torch.optim.Adam(generator.parameters())
for_critic = torch.optim.Adam(critic.parameters())
loss, one, zero = nn.BCEWithLogitsLoss(), torch.ones(4, 1), torch.zeros(4, 1)
for _ in range(3):
    fake = generator(torch.randn(4, 2))
    for_critic.zero_grad()
    (loss(critic(torch.randn(4, 2)), one) + loss(critic(fake.detach()), zero)).backward()
    for_critic.step()
    for_generator.zero_grad()
    loss(critic(fake), one).backward()
    for_generator.step()
"""


ATTACK = """
model, image = nn.Linear(2, 2), torch.rand(2, requires_grad=True)
for _ in range(3):
    x = torch.rand(4, 2, requires_grad=True)
    model.zero_grad()
    model(x).sum().backward()
optimizer = torch.optim.SGD([image], lr=0.1)
image.square().sum().backward()
optimizer.step()
"""


def test_gradients_that_no_optimizer_was_to_apply(tmp_path: Path) -> None:
    assert said(watch(tmp_path, ATTACK, Training)) == []


def test_two_optimizers_in_turn(tmp_path: Path) -> None:
    assert said(watch(tmp_path, GAN, Training)) == []


def test_clearing_for_another_optimizer_is_none(tmp_path: Path) -> None:
    text = GAN.replace("    for_generator.zero_grad()\n", "")
    assert spots(watch(tmp_path, text, Training)) == [
        ("DG703", text.splitlines().index("    loss(critic(fake), one).backward()") + 1)
    ]


def test_where_the_gradients_are_cleared_is_told(tmp_path: Path) -> None:
    for text in (SETUP.replace("for i", "optimizer.zero_grad()\nfor i"), SETUP):
        after = "" if "zero_grad" in text else "optimizer.zero_grad()\n"
        whole = text + "    head(model(x)).sum().backward()\n    optimizer.step()\n" + after
        (fault,) = watch(tmp_path, whole, Training).faults
        assert related(fault)["they are only cleared here"] == whole.splitlines().index("optimizer.zero_grad()") + 1


def test_torch_is_left_as_it_was(tmp_path: Path) -> None:
    before = torch.optim.Optimizer.zero_grad, nn_zero_grad(), torch.amp.GradScaler.scale
    watch(tmp_path, SETUP + "    pass", Training)
    assert before == (torch.optim.Optimizer.zero_grad, nn_zero_grad(), torch.amp.GradScaler.scale)


def nn_zero_grad() -> object:
    return torch.nn.Module.zero_grad
