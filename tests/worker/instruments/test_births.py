"""NaN and infinity are named where they are born, and only if they reach what matters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from instrument_harness import LEAF, related, said, spots, the_fault, watch

from drygrad.worker.instruments.births import Births

BORN: dict[str, tuple[str, int, str]] = {
    "y = w * 2\nz = w / (y - y)\nz.mean().backward()": (
        "DG401",
        3,
        "division by zero: the denominator `y - y` is 0 at 4 of 4 positions; the loss is NaN",
    ),
    "n = w.abs()\nz = 1 / n\nz.mean().backward()": (
        "DG402",
        3,
        "the denominator `n` is 0 at 1 of 4 positions; the loss is inf",
    ),
    "p = F.relu(w - 1)\nloss = -torch.log(p).mean()\nloss.backward()": ("DG404", 3, "`p` is 0 at 2 of 4 positions"),
    "p = F.softmax(w * 100, dim=0)\n(-p.log()[3]).backward()": ("DG403", 3, "`p` is 0 at 2 of 4 positions"),
    "e = torch.exp(w * 100)\np = e / e.sum()\np[0].backward()": ("DG405", 2, "`w * 100` reaches 300"),
    "d = ((w - w) ** 2).sum().sqrt()\nd.backward()": ("DG407", 2, "the gradient of `w` is NaN"),
    "(w ** 0.5).sum().backward()": ("DG407", 2, "the gradient of `w ** 0.5` is infinite at 1 of 4 positions"),
    "y = torch.where(w > 0, torch.log(w), 0.0)\ny.sum().backward()": ("DG406", 2, "hides the value, not the gradient"),
    "d = (w[:, None] - w).pow(2).sqrt()\nd.masked_fill(torch.eye(4) > 0, 0.0).max().backward()": (
        "DG407",
        2,
        "a mask applied later does not stop it",
    ),
    "torch.acos(w / 3).sum().backward()": ("DG410", 2, "its gradient is infinite at -1 and 1"),
    "(torch.acos(w).sum()).backward()": ("DG410", 2, "acos of a value outside its domain: `w` ranges from 0 to 3"),
    "F.softmax(w + torch.full((2, 4), -torch.inf), -1).sum().backward()": ("DG410", 2, "2 of 2 rows"),
    "w.view(4, 1).std(1).sum().backward()": ("DG410", 2, "the standard deviation of a single value is NaN"),
    "F.cross_entropy(w.view(2, 2), torch.tensor([-100, -100])).backward()": ("DG410", 2, "2 targets are ignore_index"),
    "((w - 5) ** 0.5).sum().backward()": ("DG410", 2, "power of a negative number"),
    "x = torch.zeros(0)\n(w * x.mean()).sum().backward()": ("DG410", 3, "the operand is empty"),
    "x = torch.tensor([1.0, float('nan')])\n(w[:2] * x).sum().backward()": (
        "DG410",
        3,
        "`x` is NaN at 1 of 2 positions before",
    ),
    "h = (w * 40000).half()\nh.float().mean().backward()": (
        "DG411",
        2,
        "`w * 40000` reaches 120000, and the maximum of float16 is 65504",
    ),
    "h = w.half() * 30000\nh.sum().backward()": ("DG411", 2, "`w.half() * 30000` exceeds the maximum of float16"),
    "w.data.fill_(1)\ny = w.half() * 2\ny.sum().mul(60000).mul(0.5).backward()": (
        "DG411",
        4,
        "exceeds the maximum of float16",
    ),
}


@pytest.mark.parametrize("program", BORN)
def test_the_line_and_the_values(tmp_path: Path, program: str) -> None:
    run = watch(tmp_path, LEAF + program, Births)
    fault = the_fault(run, *BORN[program])
    assert fault.severity == "error"
    assert set(related(fault).values()) == {LEAF.count("\n") + program.count("\n") + 1}


WRITTEN: dict[str, tuple[int, str, dict[str, int]]] = {
    "s = w.view(2, 2).masked_fill(torch.tensor([[True], [False]]), -torch.inf)\n"
    "p = s.softmax(-1)\np.sum().backward()": (
        2,
        "1 of 2 rows of `s` are all -inf, and inf is written here; the loss is NaN",
        {"it becomes NaN here": 3, "the loss is NaN": 4},
    ),
    # the number is a tensor, and many operations lie between
    "b = torch.where(w > 1, 0.0, torch.tensor(-torch.inf))\nq = (torch.cat([w + b, w]) * 2).log_softmax(0)\n"
    "(q.exp() * q).sum().backward()": (2, "inf is written here", {"it becomes NaN here": 4}),
    # of two masks the later one
    "m = torch.full((4, 4), -torch.inf).triu(1)\ns = w + m\ns[0, :] = -torch.inf\ns.softmax(-1).sum().backward()": (
        4,
        "1 of 4 rows",
        {"it becomes NaN here": 5},
    ),
    # infinity that reaches the loss as it is
    "s = w.masked_fill(w > 2, -torch.inf)\nloss = F.cross_entropy(s[None], torch.tensor([2]))\nloss.backward()": (
        2,
        "inf is written here; the loss is infinite",
        {},
    ),
}


@pytest.mark.parametrize("program", WRITTEN)
def test_infinity_that_was_written_and_becomes_nan(tmp_path: Path, program: str) -> None:
    line, sentence, others = WRITTEN[program]
    fault = the_fault(watch(tmp_path, LEAF + program, Births), "DG410", line, sentence)
    assert others.items() <= related(fault).items()


def test_a_factor_of_infinity_makes_nan_of_zeros(tmp_path: Path) -> None:
    program = LEAF + "m = torch.ones(4, 4).triu(1) * -torch.inf\ns = w + m\ns.softmax(-1).sum().backward()"
    the_fault(watch(tmp_path, program, Births), "DG410", 2, "at 16 of 16 positions, because 0 * inf is NaN")


def test_the_probe_takes_no_mask_for_a_loss(tmp_path: Path) -> None:
    class Probing(Births):
        def start(self) -> None:
            super().start()
            self.run.probing = True

    masked = "s = w.masked_fill(w > 1, -torch.inf)\n"
    assert said(watch(tmp_path, LEAF + masked + "s.backward(torch.ones(4))", Probing)) == []
    spoilt = "p = (s - s).sum()\np.backward()"
    assert spots(watch(tmp_path, LEAF + masked + spoilt, Probing)) == [("DG410", 2)]


HARMLESS = [
    # masks of -inf that are made in place
    "m = torch.full((4, 4), -torch.inf).triu_(1).mul_(2).add_(1)\nF.softmax(w + m, -1).sum().backward()",
    "m = torch.full((4,), -torch.inf)\nm.scatter_(0, torch.tensor([1]), 1.0)\nF.softmax(m + w, 0).sum().backward()",
    # masks of -inf, as attention uses them
    "m = torch.zeros(4, 4).masked_fill(torch.ones(4, 4).triu(1) > 0, -torch.inf)\nF.softmax(w+m, -1).sum().backward()",
    "best = torch.tensor(float('inf'))\nbest = torch.minimum(best, w.sum())\nbest.backward()",
    # -inf that is taken in by what follows
    "torch.logsumexp(w.detach().log() + w, 0).backward()",
    # NaN that is never used
    "q = w / (w - w)\ntorch.isnan(q).sum()\nw.sum().backward()",
    "x = torch.tensor([1.0, float('nan'), 3, 4])\nkeep = ~torch.isnan(x)\n(w[keep] * x[keep]).sum().backward()",
    # large, and yet finite, though its sum is not
    "(w * 0 + 3e38).mul(1e-38).sum().backward()",
    "(w.half() * 20000).float().sum().backward()",
    "y = w.clone()\nwith torch.no_grad():\n    y /= 0\ny = w * 2\ny.sum().backward()",
]


@pytest.mark.parametrize("program", HARMLESS)
def test_what_reaches_nothing_is_meant(tmp_path: Path, program: str) -> None:
    assert said(watch(tmp_path, LEAF + program, Births)) == []


MODELS = {
    "transformer": """
        model = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2)
        mask = nn.Transformer.generate_square_subsequent_mask(5)
        padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
        optimizer = torch.optim.AdamW(model.parameters())
        for _ in range(2):
            optimizer.zero_grad()
            model(torch.randn(2, 5, 8), mask=mask, is_causal=True).pow(2).mean().backward()
            model(torch.randn(2, 5, 8), src_key_padding_mask=padding).pow(2).mean().backward()
            optimizer.step()
        """,
    "convolutions": """
        model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.MaxPool2d(2),
                              nn.Flatten(), nn.Dropout(), nn.Linear(36, 3))
        F.cross_entropy(model(torch.randn(4, 1, 8, 8)), torch.tensor([0, 1, 2, 0])).backward()
        """,
    "recurrent": """
        model = nn.LSTM(3, 4, batch_first=True)
        output, _ = model(torch.randn(2, 5, 3))
        F.normalize(output, dim=-1).sum().backward()
        """,
}


@pytest.mark.parametrize("model", MODELS)
def test_usual_models_bear_nothing(tmp_path: Path, model: str) -> None:
    assert said(watch(tmp_path, MODELS[model], Births)) == []


def test_a_scaler_takes_care_of_overflowing_gradients(tmp_path: Path) -> None:
    program = """
    w = torch.ones(4, requires_grad=True)
    scaler = torch.amp.GradScaler("cpu", init_scale=65536.0)
    optimizer = torch.optim.SGD([w], lr=0.1)
    loss = (w.half() * 2).float().sum()
    {backward}
    """
    scaled = "scaler.scale(loss).backward()\n    scaler.step(optimizer)\n    scaler.update()"
    assert said(watch(tmp_path, program.format(backward=scaled), Births)) == []
    by_hand = "(loss * 65536).backward()\n    optimizer.step()"
    assert spots(watch(tmp_path, program.format(backward=by_hand), Births)) == [("DG411", 5)]


def test_a_half_precision_step(tmp_path: Path) -> None:
    program = """
    w = torch.ones(4, dtype=torch.float16, requires_grad=True)
    optimizer = torch.optim.Adam([w], lr=1e-3)
    (w * 0).sum().backward()
    optimizer.step()
    """
    run = watch(tmp_path, program, Births)
    assert spots(run) == [("DG411", 5)]
    assert "Adam.step()" in said(run)[0][1]


def test_each_run_of_a_loop_is_one_fault(tmp_path: Path) -> None:
    program = LEAF + "for _ in range(3):\n    (w / (w - w)).sum().backward()\n"
    assert spots(watch(tmp_path, program, Births)) == [("DG401", 3)]


class Returning(Births):
    """Takes the result of the last operation for what the target returns."""

    name = "returning"

    def finish(self) -> None:
        self.returned({"scores": [self.kept]}, None)

    def after_op(self, op: Any, result: Any) -> None:
        super().after_op(op, result)
        self.kept: torch.Tensor = result


def test_values_that_are_returned(tmp_path: Path) -> None:
    run = watch(tmp_path, "with torch.no_grad():\n    y = torch.ones(3).log().log()\n", Returning)
    assert [(fault.code, fault.severity) for fault in run.faults] == [("DG404", "warning")]
    assert said(run)[0][1] == "logarithm of 0: `self.kept` is 0 at 3 of 3 positions; an infinite value is returned"


CLIPPED = """\
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for number in range(2):
    model(torch.ones(3, 4)).sum().backward()
    {spoil}
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
"""


@pytest.mark.parametrize(("value", "norm"), [("inf", "infinite"), ("nan", "NaN")])
def test_clipping_spreads_what_one_gradient_has(tmp_path: Path, value: str, norm: str) -> None:
    run = watch(tmp_path, CLIPPED.format(spoil=f"model.bias.grad[0] = float({value!r})"), Births)
    assert spots(run) == [("DG410", 6)]
    assert f"the total norm of the gradients is {norm}" in said(run)[0][1]
    assert watch(tmp_path, CLIPPED.format(spoil="pass"), Births).faults == []


def test_what_a_spoilt_step_leaves_behind_is_not_told_again(tmp_path: Path) -> None:
    program = """\
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for number in range(3):
    loss = (model(torch.ones(3, 4)) - model(torch.ones(3, 4))).sqrt().sum()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
"""
    assert spots(watch(tmp_path, program, Births)) == [("DG407", 4)]


def test_a_distribution_that_refuses_what_was_told_before_is_told_no_more(tmp_path: Path) -> None:
    program = LEAF + "(w / (w - w)).sum().backward()\ntorch.distributions.Normal(w.grad * w, 1.0)\n"
    assert spots(watch(tmp_path, program, Births)) == [("DG401", 2)]


HELPER = """
w = torch.ones(4, requires_grad=True)
scaler = torch.amp.GradScaler("cpu", init_scale=65536.0, enabled={enabled})
loss = (w.half() * 2).float().sum() * {factor}
scaler.scale(loss).backward()
"""


@pytest.mark.parametrize(("enabled", "factor", "told"), [(True, 1, []), (False, 65536, [("DG411", 4)])])
def test_a_helper_that_only_scales_overflows_as_the_scaler_expects(
    tmp_path: Path, enabled: bool, factor: int, told: list[tuple[str, int]]
) -> None:
    assert spots(watch(tmp_path, HELPER.format(enabled=enabled, factor=factor), Births)) == told


RESULTS = [
    ("x / (x - x)", "warning"),
    ("(x - x) / (x - x)", "warning"),
    ("(x - 1).log()", "info"),
    ("(x - x).sum().log()", "info"),
    ("(x - x).sum() / 0", "warning"),
]
"""One infinite number may be an answer; NaN is none, nor are many."""


@pytest.mark.parametrize(("expression", "severity"), RESULTS)
def test_a_result_without_one_finite_number_is_a_warning(tmp_path: Path, expression: str, severity: str) -> None:
    run = watch(tmp_path, f"x = torch.tensor([1.0, 2.0])\ny = {expression}\n", Returning)
    assert [fault.severity for fault in run.faults] == [severity]


def test_a_loss_that_refuses_nan_ends_what_began_where_it_was_born(tmp_path: Path) -> None:
    text = "spread = torch.sqrt(w - 5)\np = torch.sigmoid(spread)\nF.binary_cross_entropy(p, torch.ones(4))"
    run = watch(tmp_path, LEAF + text, Births)
    the_fault(run, "DG410", 2, "binary_cross_entropy refuses it")
    assert related(run.faults[0]) == {"binary_cross_entropy refuses it": 4}


def test_an_index_out_of_range_is_no_matter_of_nan(tmp_path: Path) -> None:
    text = "spread = torch.sqrt(w - 5)\nspread.gather(0, torch.tensor([7]))"
    assert "DG410" not in [code for code, _ in spots(watch(tmp_path, LEAF + text, Births))]
