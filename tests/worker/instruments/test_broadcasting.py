"""Losses of (N, 1) against (N) are found; broadcasting that is meant is left alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from instrument_harness import related, said, spots, watch

from drygrad.worker.instruments.broadcasting import Broadcasting
from drygrad.worker.instruments.memory import Memory

MODEL = "model, x, y = nn.Linear(3, 1), torch.randn(8, 3), torch.randn(8)\n"

FAULTS = {
    "F.mse_loss(model(x), y)": "`model(x)` [8, 1] and `y` [8]",
    "nn.MSELoss()(model(x), y)": "`model(x)` [8, 1] and `y` [8]",
    "nn.L1Loss()(model(x), y)": "`model(x)` [8, 1] and `y` [8]",
    "F.smooth_l1_loss(y, model(x))": "`y` [8] and `model(x)` [8, 1]",
    "out = model(x)\nF.huber_loss(out, y)": "`out` [8, 1] and `y` [8]",
    "out = model(x)\n((out - y) ** 2).mean().backward()": "`out` [8, 1] and `y` [8]",
    "((model(x) - y) ** 2).mean().backward()": "`model(x)` [8, 1] and `y` [8]",
    "out = model(x)\n(y - out).abs().sum().backward()": "`y` [8] and `out` [8, 1]",
    "out = model(x)\nd = out - y\n(d * d).mean().sqrt().backward()": "`out` [8, 1] and `y` [8]",
    "out = model(x)\nd = y - out\ntorch.maximum(0.9 * d, -0.1 * d).mean().backward()": "`y` [8] and `out` [8, 1]",
    "out = model(x)\nd = y - out\ntorch.where(d > 0, d, d ** 2).mean().backward()": "`y` [8] and `out` [8, 1]",
    "out = model(x)\nF.relu(1 - out * y).mean().backward()": "`out` [8, 1] and `y` [8]",
}

MEANT = [
    "F.mse_loss(model(x).squeeze(1), y).backward()",
    "F.mse_loss(model(x), y[:, None]).backward()",
    "F.mse_loss(model(x), torch.ones(1)).backward()",
    "F.mse_loss(model(x), torch.tensor(0.0)).backward()",
    "((model(x) - y.mean()) ** 2).mean().backward()",
    "out = model(x).squeeze(1)\n((out[:, None] - out) ** 2).mean().backward()",
    "out = model(x)\n((out.T - out) ** 2).mean().backward()",
    "a, b = model(x), model(x).squeeze(1)\n(a * b).mean().backward()",
    "h = model.weight * x\n((h - h.mean(1, keepdim=True)) / h.std(0)).pow(2).mean().backward()",
    "q, position = model(x), torch.arange(8.0)\n(-(q - position).abs()).softmax(-1).max().backward()",
    "mask = torch.ones(8, 8).tril().log()\n(model(x) @ model(x).T + mask[None]).softmax(-1).sum().backward()",
]


@pytest.mark.parametrize("program", FAULTS)
def test_a_loss_of_all_pairs(tmp_path: Path, program: str) -> None:
    run = watch(tmp_path, MODEL + program, Broadcasting)
    message = f"{FAULTS[program]} broadcast to [8, 8]; each prediction is compared with every target"
    assert said(run) == [("DG303", message)]


@pytest.mark.parametrize("program", MEANT)
def test_broadcasting_that_is_meant(tmp_path: Path, program: str) -> None:
    run = watch(tmp_path, MODEL + program, Broadcasting)
    assert "error" not in run.result
    assert said(run) == []


def test_the_line_that_put_them_together(tmp_path: Path) -> None:
    program = (
        "def pinball(given, wanted):\n    d = wanted - given\n    return torch.maximum(0.9 * d, -0.1 * d).mean()\n"
    )
    run = watch(tmp_path, MODEL + program + "pinball(model(x), y).backward()", Broadcasting)
    assert spots(run) == [("DG303", 5)]
    assert related(run.faults[0]) == {"they broadcast here": 3}
    program = "def step(batch):\n    return F.mse_loss(model(batch[0]), batch[1])\nstep((x, y)).backward()"
    assert spots(watch(tmp_path, MODEL + program, Broadcasting)) == [("DG303", 3)]


NET = '''\
class Net(nn.Module):
    """{doc}"""
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(3, 1)
    def forward(self, x){returns}:
        h = x * 2
        return self.head(h)
model, x, y = Net(), torch.randn(8, 3), torch.randn(8)
F.mse_loss(model(x), y).backward()
'''
TWICE = NET + "with torch.no_grad():\n    print(F.l1_loss(model(x), y))\n"
_RETURN, _LOSS = 8, 10


@pytest.mark.parametrize(
    ("program", "line"),
    [
        (NET.format(doc="A net.", returns=""), _LOSS),
        (NET.format(doc="Returns one value per row, shape (batch,).", returns=""), _RETURN),
        (NET.format(doc="x: (B, 3) -> (B,)", returns=""), _RETURN),
        (NET.format(doc="x: (B, 3), lengths: (B,). Returns (B, 1).", returns=""), _LOSS),
        (NET.format(doc="Takes weights (B,)", returns=""), _LOSS),
        ("Float = dict\n" + NET.format(doc="A net.", returns=" -> Float[torch.Tensor, 'batch']"), _RETURN + 1),
        ("Float = dict\n" + NET.format(doc="A net.", returns=" -> Float[torch.Tensor, 'batch 1']"), _LOSS + 1),
        (TWICE.format(doc="A net.", returns=""), _RETURN),
    ],
)
def test_the_model_that_owes_another_shape(tmp_path: Path, program: str, line: int) -> None:
    run = watch(tmp_path, program, Memory, Broadcasting)
    assert spots(run) == [("DG303", line)]
    assert ("compared here" in related(run.faults[0])) == (line < _LOSS)
